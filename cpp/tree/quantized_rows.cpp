#include "tree/quantized_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/clones.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr float kLargest = 32760;                 // a little less than 16 bits hold, for rounding
constexpr int64_t kMostRows = int64_t(1) << 16;   // whose sums 32 bits hold
constexpr int64_t kMostCells = int64_t(1) << 24;
constexpr int64_t kCellsPerEntry = 4;             // below this density rows are better read by their entries
constexpr double kUnlike = 4;                     // times the mean of the squared norms: the largest one
constexpr int64_t kAligned = 32;                  // cells of a cache line: rows begin with one, so that no vector is in two,
constexpr int64_t kLong = 256;                    // from so many columns on
constexpr int64_t kColumns = 128;                 // whose sums a thread makes at a time

// The nearest whole number to one far below 2^22: what is left of it beside a number that has no digits for fractions.
[[gnu::always_inline]] inline int16_t whole(float value) {
    constexpr float kBeside = 0x1.8p23f;
    return int16_t(std::bit_cast<int32_t>(value + kBeside) - std::bit_cast<int32_t>(kBeside));
}

FOR_EACH_PROCESSOR
void quantize(const float* values, int64_t n, float scale, int16_t* out) {
    for (int64_t at = 0; at < n; ++at) out[at] = whole(values[at] * scale);
}
FOR_EACH_PROCESSOR
void quantize(const double* values, int64_t n, float scale, int16_t* out) {
    for (int64_t at = 0; at < n; ++at) out[at] = whole(float(values[at]) * scale);
}

// Entries into the cells of a row that are zero.
void scatter(const int32_t* features, const int16_t* entries, int64_t n, int16_t* cells) {
    int64_t e = 0;
    for (; e + 4 <= n; e += 4) {
        // Read as words: there are more columns and entries to be read than cells to be written.
        uint64_t some, others, values;
        std::memcpy(&some, features + e, 8), std::memcpy(&others, features + e + 2, 8), std::memcpy(&values, entries + e, 8);
        static_assert(std::endian::native == std::endian::little);
        cells[uint32_t(some)] = int16_t(values), cells[some >> 32] = int16_t(values >> 16);
        cells[uint32_t(others)] = int16_t(values >> 32), cells[others >> 32] = int16_t(values >> 48);
    }
    for (; e < n; ++e) cells[features[e]] = entries[e];
}

// Two columns as words of two numbers per lane.
FOR_EACH_PROCESSOR
void quantize_pair(const float* one, const float* other, const float* scales, int lanes, int16_t* out) {
    for (int lane = 0; lane < lanes; ++lane) {
        out[2 * lane] = whole(one[lane] * scales[lane]);
        out[2 * lane + 1] = whole(other[lane] * scales[lane]);
    }
}

// At most the product of the norms of rows, which 32 bits hold.
FOR_EACH_PROCESSOR
int32_t product(const int16_t* one, const int16_t* other, int64_t n) {
    int32_t sum = 0;
    for (int64_t at = 0; at < n; ++at) sum += int32_t(one[at]) * int32_t(other[at]);
    return sum;
}

FOR_EACH_PROCESSOR
void add_cells(const int16_t* cells, int64_t n, int32_t* sums) {
    for (int64_t at = 0; at < n; ++at) sums[at] += cells[at];
}
FOR_EACH_PROCESSOR
void move_cells(const int16_t* cells, int64_t n, int32_t* from, int32_t* to) {
    for (int64_t at = 0; at < n; ++at) from[at] -= cells[at], to[at] += cells[at];
}

FOR_EACH_PROCESSOR
void as_scores(const int32_t* products, int lanes, float unit, const float* halves, float* out) {
    for (int lane = 0; lane < lanes; ++lane) out[lane] = float(products[lane]) * unit - halves[lane];
}

}  // namespace

template <class V>
bool QuantizedRows::load(const NodePoints<V>& points) {
    n_ = points.size(), n_columns_ = points.rows.n_columns();
    const int64_t multiple = n_columns_ < kLong ? 2 : kAligned;
    stride_ = (n_columns_ + multiple - 1) / multiple * multiple;
    summed_.clear();
    const int64_t n_cells = n_ * points.rows.n_declared();
    if (!points.weights.empty() || n_ > kMostRows || n_cells > kMostCells || n_cells > kCellsPerEntry * points.rows.n_entries())
        return false;
    double most = 0;
    for (int64_t i = 0; i < n_; ++i) most = std::max(most, points.rows.norm2(i));
    if (!(most > 0) || most > kUnlike * points.norms / double(n_)) return false;
    scale_ = kLargest / float(std::sqrt(most));
    center_scale_ = points.unit ? kLargest : scale_;
    kernels_ = &kernels();
    cells_.reserve(n_ * stride_), norms2_.resize(n_);
    parallel_blocks(points.rows.n_blocks(), points.n_threads, [&](int64_t index, int) {
        std::vector<int16_t> entries(n_columns_);
        points.rows.block(index, [&](const NodeBlock<V>& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                int16_t* const cells = cells_.get() + (block.first + i) * stride_;
                const int64_t begin = block.begin[i], n_entries = block.begin[i + 1] - begin;
                quantize(block.values + begin, n_entries, scale_, entries.data());
                std::fill_n(cells, stride_, int16_t(0));
                scatter(block.features + begin, entries.data(), n_entries, cells);
                norms2_[block.first + i] = product(entries.data(), entries.data(), n_entries);
            }
        });
    });
    return true;
}

double QuantizedRows::distance2(int64_t i, int64_t j) const {
    const int64_t squares = norms2_[i] + norms2_[j] - 2 * int64_t(product(row(i), row(j), stride_));
    return double(squares) / (double(scale_) * double(scale_));
}

void QuantizedRows::set_centers(const LaneTable<float>& table) {
    lanes_ = table.lanes(), padded_ = (lanes_ + kProductLanes - 1) / kProductLanes * kProductLanes;
    centers_.reserve(stride_ * padded_);
    if (padded_ > lanes_) std::fill_n(centers_.get(), stride_ * padded_, int16_t(0));
    std::vector<float> scales(lanes_);
    for (int lane = 0; lane < lanes_; ++lane) scales[lane] = table.scales[lane] * center_scale_;
    const std::vector<float> zeros(lanes_, 0.0f);  // in the place of a column beyond the last
    for (int64_t c = 0; c < n_columns_; c += 2) {
        const float* const next = c + 1 < n_columns_ ? table.column(c + 1) : zeros.data();
        quantize_pair(table.column(c), next, scales.data(), lanes_, centers_.get() + c * padded_);
    }
    halves_ = table.halves;
}

void QuantizedRows::scores(int64_t first, int64_t n, float* out) const {
    constexpr int64_t kRows = 64;
    static thread_local std::vector<int32_t> products;
    products.resize(kRows * padded_);
    const auto unit = float(1 / (double(scale_) * double(center_scale_)));
    for (int64_t begin = 0; begin < n; begin += kRows) {
        const int64_t some = std::min(kRows, n - begin);
        kernels_->pair_products(row(first + begin), stride_, some, (n_columns_ + 1) / 2, centers_.get(), padded_, products.data());
        for (int64_t i = 0; i < some; ++i)
            as_scores(products.data() + i * padded_, lanes_, unit, halves_.data(), out + (begin + i) * lanes_);
    }
}

void QuantizedRows::sum(const std::vector<int32_t>& labels, int k, int64_t step, int64_t block, int n_threads,
                        LaneTable<float>& table) {
    // The rows whose cells are to be added: all of the blocks, or those that moved where these are few.
    changed_.clear();
    const bool known = step == 1 && !summed_.empty();
    for (int64_t begin = 0; begin < n_; begin += step * block)
        for (int64_t i = begin; i < std::min(begin + block, n_); ++i)
            if (!known || labels[i] != summed_[i]) changed_.push_back(int32_t(i));
    const bool anew = !known || 2 * int64_t(changed_.size()) >= n_;
    if (anew && known) changed_.resize(n_), std::iota(changed_.begin(), changed_.end(), 0);
    sums_.reserve(k * stride_);
    const float unit = 1 / scale_;
    parallel_blocks((stride_ + kColumns - 1) / kColumns, n_threads, [&](int64_t part, int) {
        const int64_t from = part * kColumns, n = std::min(kColumns, stride_ - from);
        int32_t* const sums = sums_.get() + from;
        for (int c = 0; anew && c < k; ++c) std::fill_n(sums + c * stride_, n, 0);
        for (const int32_t i : changed_) {
            if (anew)
                add_cells(row(i) + from, n, sums + labels[i] * stride_);
            else
                move_cells(row(i) + from, n, sums + summed_[i] * stride_, sums + labels[i] * stride_);
        }
        for (int64_t c = from; c < std::min(from + n, n_columns_); ++c)
            for (int lane = 0; lane < table.lanes(); ++lane)
                table.column(c)[lane] = lane < k ? float(sums_[lane * stride_ + c]) * unit : 0.0f;
    });
    if (step == 1)
        summed_ = labels;
    else
        summed_.clear();
}

template bool QuantizedRows::load(const NodePoints<float>& points);
template bool QuantizedRows::load(const NodePoints<double>& points);

}  // namespace sparsecluster
