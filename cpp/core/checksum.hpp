// CRC-32 as zlib has it (polynomial 0xEDB88320), eight bytes at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace sparsecluster {

namespace crc_tables {

// Entry [s][b]: the remainder of byte b with s zero bytes behind it.
constexpr std::array<std::array<uint32_t, 256>, 8> make() {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ (remainder & 1 ? 0xEDB88320u : 0u);
        tables[0][byte] = remainder;
    }
    for (size_t s = 1; s < 8; ++s)
        for (uint32_t byte = 0; byte < 256; ++byte)
            tables[s][byte] = (tables[s - 1][byte] >> 8) ^ tables[0][tables[s - 1][byte] & 255];
    return tables;
}

inline constexpr auto kTables = make();

}  // namespace crc_tables

// Of these bytes behind others that have the checksum `crc`; 0 for none.
inline uint32_t crc32(const char* bytes, int64_t size, uint32_t crc = 0) {
    const auto& tables = crc_tables::kTables;
    crc = ~crc;
    for (; size >= 8; bytes += 8, size -= 8) {
        unsigned char eight[8];
        std::memcpy(eight, bytes, 8);
        crc = tables[7][eight[0] ^ (crc & 255)] ^ tables[6][eight[1] ^ ((crc >> 8) & 255)] ^
              tables[5][eight[2] ^ ((crc >> 16) & 255)] ^ tables[4][eight[3] ^ (crc >> 24)] ^
              tables[3][eight[4]] ^ tables[2][eight[5]] ^ tables[1][eight[6]] ^ tables[0][eight[7]];
    }
    for (; size > 0; ++bytes, --size)
        crc = (crc >> 8) ^ tables[0][static_cast<unsigned char>(*bytes) ^ (crc & 255)];
    return ~crc;
}

}  // namespace sparsecluster
