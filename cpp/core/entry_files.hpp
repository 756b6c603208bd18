// The entries of rows in the files of a store, for rows that are larger than memory: read past the system's cache
// where the file system can do that, piece by piece into two buffers, by threads that are one piece ahead.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/huge.hpp"

namespace sparsecluster {

// Rows that were written together, and the CRC-32 of their entries in both files; -1 where it was compared before,
// because not all rows of the block are here.
struct StoredBlock {
    int64_t end_row;
    std::array<int64_t, 2> checksums;
};

// Thrown where a file cannot be read.
struct ReadFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A file, read without the system's cache where that is possible.
class DirectFile {
public:
    // Opens what the descriptor has open once more, for itself. `begin`: byte from which on it counts.
    DirectFile(int descriptor, int64_t begin);
    ~DirectFile();
    DirectFile(const DirectFile&) = delete;
    DirectFile& operator=(const DirectFile&) = delete;

    // Bytes begin .. end, in a buffer that is made large enough. Throws ReadFailure.
    const char* read(int64_t begin, int64_t end, HugeBuffer<char>& buffer);

private:
    int plain_ = -1;
    std::atomic<int> direct_{-1};  // -1 where the file system only reads through the cache
    int64_t begin_;
};

// The columns (first) and values (second) of the entries.
class EntryFiles {
public:
    using Ranges = std::array<std::pair<int64_t, int64_t>, 2>;  // bytes of both files
    using Buffers = std::array<HugeBuffer<char>, 2>;
    using Pieces = std::array<const char*, 2>;

    EntryFiles(std::array<int, 2> descriptors, std::array<int64_t, 2> begins, std::vector<StoredBlock> blocks)
        : blocks_(std::move(blocks)), features_(descriptors[0], begins[0]), values_(descriptors[1], begins[1]) {}
    ~EntryFiles() { delete spare_.load(); }

    const std::vector<StoredBlock>& blocks() const { return blocks_; }

    // Bytes of one of the files.
    const char* read(size_t file, const std::pair<int64_t, int64_t>& range, HugeBuffer<char>& buffer) {
        return (file == 0 ? features_ : values_).read(range.first, range.second, buffer);
    }

    // Buffers of a reader that is done, for the next one.
    std::unique_ptr<std::array<Buffers, 2>> take_buffers();
    void give_back(std::unique_ptr<std::array<Buffers, 2>> buffers);

private:
    std::vector<StoredBlock> blocks_;
    DirectFile features_, values_;
    std::atomic<std::array<Buffers, 2>*> spare_{nullptr};
};

// Reads pieces of the files in turn. Threads are not waited for: when the reader goes they end after their piece.
class PieceReader {
public:
    PieceReader(std::shared_ptr<EntryFiles> files, std::vector<EntryFiles::Ranges> ranges);
    ~PieceReader();
    PieceReader(const PieceReader&) = delete;
    PieceReader& operator=(const PieceReader&) = delete;

    // The next piece, which stays until the one after it is asked for.
    EntryFiles::Pieces next();

private:
    struct Shared;
    static void read_ahead(const std::shared_ptr<Shared>& shared, size_t file);

    std::shared_ptr<Shared> shared_;
    std::array<bool, 2> alone_{};  // per file, where no thread was to be had, or none is needed
    uint32_t n_taken_ = 0, n_forks_before_;
};

}  // namespace sparsecluster
