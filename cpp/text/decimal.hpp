// Decimal numbers in text, to the nearest float or double: the bits that strtod and Python's float() give.
// Digits are read eight at a time; what is short enough for one exact division takes that, all else goes
// to std::from_chars. Nothing is read at or behind `end`.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>

namespace sparsecluster {

enum class Scan { ok, malformed, too_large };

// Powers of ten that a double holds exactly, and their inverses, rounded.
inline constexpr std::array<double, 23> kPower = [] {
    std::array<double, 23> powers{};
    double power = 1;
    for (double& each : powers) each = power, power *= 10;
    return powers;
}();
inline constexpr std::array<double, 23> kInverse = [] {
    std::array<double, 23> inverses{};
    for (size_t k = 0; k < inverses.size(); ++k) inverses[k] = 1 / kPower[k];
    return inverses;
}();
inline constexpr std::array<uint64_t, 9> kTens = {1,      10,      100,      1000,     10000,
                                                  100000, 1000000, 10000000, 100000000};

inline bool is_digit(char c) { return uint8_t(c - '0') < 10; }
// What bytes.split() of Python splits at, but the newline.
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// What ends a word; the end of the text reads as a newline.
inline constexpr std::array<bool, 256> kEndsWord = [] {
    std::array<bool, 256> ends{};
    for (const char c : {' ', '\t', '\r', '\v', '\f', '\n', '#'}) ends[uint8_t(c)] = true;
    return ends;
}();
inline bool ends_word(char c) { return kEndsWord[uint8_t(c)]; }
inline char peek(const char* p, const char* end) { return p < end ? *p : '\n'; }

struct Digits {
    uint64_t value;
    int count;  // 0 .. 8
};

// The digits at the head of eight readable bytes.
inline Digits leading_digits(const char* p) {
    uint64_t bytes;
    std::memcpy(&bytes, p, 8);
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
    bytes ^= 0x3030303030303030;  // a digit is 0 .. 9 now
    // Adding 0x76 sets the top bit of all else; carries only reach bytes behind the first that is no digit.
    const uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
    const int count = others ? std::countr_zero(others) >> 3 : 8;
    if (count == 0) return {0, 0};
    bytes <<= 64 - 8 * count;  // zeros in front
    // Neighbours are joined: ones to pairs, pairs to fours, fours to eight.
    bytes = (bytes * (10 * 0x100 + 1)) >> 8 & 0x00FF00FF00FF00FF;
    bytes = (bytes * (100 * 0x10000 + 1)) >> 16 & 0x0000FFFF0000FFFF;
    bytes = (bytes * (10000 * 0x100000000 + 1)) >> 32;
    return {bytes, count};
}

// Whether a double that is off by up to eight units in its last place has the same nearest float as the number
// it stands for. A float's neighbours meet in the middle, where the 29 bits that it drops are 1000...0;
// below the smallest normal float they meet elsewhere.
inline bool rounds_alike(double magnitude) {
    constexpr uint64_t kMiddle = uint64_t(1) << 28, kNear = 8;
    const uint64_t dropped = std::bit_cast<uint64_t>(magnitude) & ((uint64_t(1) << 29) - 1);
    return dropped - (kMiddle - kNear) > 2 * kNear && magnitude >= std::numeric_limits<float>::min() &&
           magnitude < 3.4e38;
}

// digits x 10^exponent where one operation in double settles it; `exact` says that no digit was left off.
template <class V>
inline bool settle_short(uint64_t digits, int64_t exponent, bool exact, V& magnitude) {
    if (digits == 0 && exact) {
        magnitude = 0;
        return true;
    }
    if (exponent < -22 || exponent > 22) return false;
    const double whole = double(digits);
    if constexpr (sizeof(V) == sizeof(double)) {
        // Both operands are exact, so the result is rounded once.
        if (!exact || digits > uint64_t(1) << 53) return false;
        magnitude = exponent < 0 ? whole / kPower[-exponent] : whole * kPower[exponent];
    } else {
        // Digits left off, `whole`, the inverse, the product: four roundings, each by less than a unit in the last
        // place. A division would be one less, and slower.
        const double product = whole * (exponent < 0 ? kInverse[-exponent] : kPower[exponent]);
        if (!rounds_alike(product)) return false;
        magnitude = V(product);
    }
    return true;
}

// A number of any length. p moves behind it; `text` for from_chars starts behind the sign.
template <class V>
Scan scan_long_number(const char*& p, const char* end, V& value) {
    const char* q = p;
    const bool minus = peek(q, end) == '-';
    if (minus || peek(q, end) == '+') ++q;
    const char* const text = q;
    uint64_t digits = 0;       // the first 19 that count
    int64_t n_digits = 0, exponent = 0, n_seen = 0;
    bool exact = true;
    auto take = [&](bool fraction) {
        for (; is_digit(peek(q, end)); ++q, ++n_seen) {
            const int digit = *q - '0';
            exponent -= fraction;
            if (n_digits == 0 && digit == 0) continue;
            if (n_digits < 19) {
                digits = digits * 10 + uint64_t(digit);
            } else {
                ++exponent;
                exact = exact && digit == 0;
            }
            ++n_digits;
        }
    };
    take(false);
    if (peek(q, end) == '.') {
        ++q;
        take(true);
    }
    if (n_seen == 0) return Scan::malformed;
    if (peek(q, end) == 'e' || peek(q, end) == 'E') {
        ++q;
        const bool down = peek(q, end) == '-';
        if (down || peek(q, end) == '+') ++q;
        if (!is_digit(peek(q, end))) return Scan::malformed;
        int64_t written = 0;
        constexpr int64_t kEnough = int64_t(1) << 60;  // more than any text has digits
        for (; is_digit(peek(q, end)); ++q) written = std::min(written * 10 + (*q - '0'), kEnough / 10);
        exponent += down ? -written : written;
    }
    p = q;
    V magnitude;
    if (!settle_short(digits, exponent, exact, magnitude)) {
        const auto result = std::from_chars(text, q, magnitude);
        if (result.ec == std::errc::result_out_of_range) {
            if (exponent + std::min<int64_t>(n_digits, 19) > 0) return Scan::too_large;
            magnitude = 0;
        } else if (result.ec != std::errc() || result.ptr != q) {
            return Scan::malformed;
        }
    }
    value = minus ? -magnitude : magnitude;
    return Scan::ok;
}

// A number, with a sign or not, with point and exponent or not; p moves behind it, if it is one.
template <class V>
inline Scan scan_number(const char*& p, const char* end, V& value) {
    constexpr int kLongest = 1 + 8 + 1 + 16 + 8;  // of what is read below
    if (end - p < kLongest) return scan_long_number(p, end, value);
    const char* q = p;
    const bool minus = *q == '-';
    if (minus || *q == '+') ++q;
    uint64_t digits;
    int n_decimals = 0;
    if (is_digit(*q) && q[1] == '.') {  // "0." needs no look at eight bytes
        digits = uint64_t(*q - '0');
        ++q;
    } else {
        const Digits whole = leading_digits(q);
        if (whole.count == 0) return scan_long_number(p, end, value);
        digits = whole.value;
        q += whole.count;
    }
    if (*q == '.') {
        const Digits fraction = leading_digits(q + 1);
        digits = digits * kTens[fraction.count] + fraction.value;
        n_decimals = fraction.count;
        q += 1 + fraction.count;
        if (fraction.count == 8 && is_digit(*q)) {
            const Digits more = leading_digits(q);
            if (digits >= 100'000'000'000) return scan_long_number(p, end, value);
            digits = digits * kTens[more.count] + more.value;
            n_decimals += more.count;
            q += more.count;
        }
    }
    V magnitude;
    if (!ends_word(*q) || !settle_short(digits, -n_decimals, true, magnitude))
        return scan_long_number(p, end, value);
    p = q;
    value = minus ? -magnitude : magnitude;
    return Scan::ok;
}

// A whole number of at most `largest`, with a plus sign or none; p moves behind it.
inline Scan scan_count(const char*& p, const char* end, int64_t largest, int64_t& value) {
    const char* q = p;
    if (end - q >= 16) {
        const Digits head = leading_digits(q);
        if (head.count > 0 && !is_digit(q[head.count])) {
            p = q + head.count;
            value = int64_t(head.value);
            return value <= largest ? Scan::ok : Scan::too_large;
        }
    }
    if (peek(q, end) == '+') ++q;
    if (!is_digit(peek(q, end))) return Scan::malformed;
    int64_t sum = 0;
    bool fits = true;
    for (; is_digit(peek(q, end)); ++q) {
        const int digit = *q - '0';
        fits = fits && sum <= largest / 10 && sum * 10 <= largest - digit;
        if (fits) sum = sum * 10 + digit;
    }
    p = q;
    value = sum;
    return fits ? Scan::ok : Scan::too_large;
}

// A whole number of 64 bits, with a sign or not; p moves behind it.
inline Scan scan_integer(const char*& p, const char* end, int64_t& value) {
    if (peek(p, end) != '-') return scan_count(p, end, INT64_MAX, value);
    const char* q = p + 1;
    if (!is_digit(peek(q, end))) return Scan::malformed;
    const Scan scan = scan_count(q, end, INT64_MAX, value);
    p = q;
    value = -value;
    return scan;
}

}  // namespace sparsecluster
