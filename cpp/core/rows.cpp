// Inspection of input rows: structure, values, norms.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>
#include <utility>

#include "core/checksum.hpp"
#include "core/parallel.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

namespace {

constexpr int kTogether = 8;  // rows whose norms are summed side by side

// Where features ascend, which is seen of many at a time, the first and the last one tell whether all are in range.
template <class V, class I>
Fault inspect_features(const Row<V, I>& row, int64_t n_features) {
    const I* const features = row.features;
    const auto outside = [&](I feature) { return feature < 0 || feature >= n_features; };
    I falls = 0;
    for (int64_t e = 1; e < row.size; ++e) falls |= -I(features[e] <= features[e - 1]);
    if (falls) return std::any_of(features, features + row.size, outside) ? Fault::feature_range : Fault::unsorted;
    const bool any_outside = row.size > 0 && (outside(features[0]) || outside(features[row.size - 1]));
    return any_outside ? Fault::feature_range : Fault::none;
}

template <class V, class I>
Fault inspect_values(const Row<V, I>& row, double norm2) {
    if (norm2 <= 1e300) return Fault::none;
    for (int64_t e = 0; e < row.size; ++e)
        if (!std::isfinite(row.values[e])) return Fault::not_finite;
    return Fault::overflow;
}

double square(double value) { return value * value; }

// Adds the squares of some entries of N rows: every sum in the order of the features, none waits for another.
template <int N, class V>
void add_squares(const V* const* values, int64_t begin, int64_t end, double* sums) {
    double own[N];
    std::copy_n(sums, N, own);
    for (int64_t e = begin; e < end; ++e)
        for (int r = 0; r < N; ++r) own[r] += square(values[r][e]);
    std::copy_n(own, N, sums);
}

// The squared norms of `n` rows, at most kTogether; as many side by side as are long enough.
template <class V, class I>
void sum_squares(const Matrix<V, I>& matrix, int64_t first, int64_t n, double* norms2) {
    std::pair<int64_t, int> order[kTogether];  // by size, the longest first
    for (int r = 0; r < n; ++r) order[r] = {matrix.row(first + r).size, r};
    std::sort(order, order + n, std::greater<>());
    const V* values[kTogether];
    double sums[kTogether] = {};
    for (int r = 0; r < n; ++r) values[r] = matrix.row(first + order[r].second).values;
    int64_t done = 0;
    auto add = [&]<int N>(std::integral_constant<int, N>) {
        if (n < N) return;
        add_squares<N>(values, done, order[N - 1].first, sums);
        done = order[N - 1].first;
    };
    [&]<int... Fewer>(std::integer_sequence<int, Fewer...>) {
        (add(std::integral_constant<int, kTogether - Fewer>()), ...);
    }(std::make_integer_sequence<int, kTogether>());
    for (int r = 0; r < n; ++r) norms2[order[r].second] = sums[r];
}

// A feature out of range is worse than a value that cannot be, and that than features out of order.
template <class V, class I>
Fault inspect_row(const Matrix<V, I>& matrix, int64_t i, double norm2) {
    const Row<V, I> row = matrix.row(i);
    const Fault of_features = matrix.indptr ? inspect_features(row, matrix.n_features) : Fault::none;
    if (of_features == Fault::feature_range) return of_features;
    const Fault of_values = inspect_values(row, norm2);
    return of_values == Fault::none ? of_features : of_values;
}

}  // namespace

thread_local const ChunkFollower* ChunkFollower::now_ = nullptr;

int64_t rows_of_block(int64_t n_rows, int64_t n_entries) {
    constexpr int64_t kMostRows = 1024, kEntriesOfBlock = 1 << 17;
    return std::clamp<int64_t>(kEntriesOfBlock * n_rows / std::max<int64_t>(n_entries, 1), 1, kMostRows);
}

double scale_for(double norm) {
    if (norm <= 0) return 0x1p1000;
    constexpr int kRoom = 50;          // squares stay far below the largest float
    constexpr int kSquareRoot = 500;   // squares of a larger scale would overflow
    int exponent = 0;
    std::frexp(norm, &exponent);
    return std::ldexp(1.0, std::min(-exponent + std::clamp(kSquareRoot + exponent, 0, kRoom), 1000));
}

namespace {

// Unsorted rows can be mended, so a worse fault takes precedence.
bool worse(const Finding& finding, const Finding& known) {
    return finding.fault != Fault::none &&
           (known.fault == Fault::none || (known.fault == Fault::unsorted && finding.fault != Fault::unsorted));
}

// The checksums of the blocks of a store, followed through their chunks.
class BlockCheck {
public:
    explicit BlockCheck(const EntryFiles* files) : files_(files) {}

    int64_t n_files() const { return files_ ? 2 : 0; }
    // The entries of a chunk in one of the files.
    template <class View>
    void add(const View& chunk, int64_t begin, int64_t end, int64_t file) {
        const int64_t first = chunk.indptr[begin], n = chunk.indptr[end] - first;
        const char* const bytes = file == 0 ? reinterpret_cast<const char*>(chunk.features + first)
                                            : reinterpret_cast<const char*>(chunk.values + first);
        const int64_t width = file == 0 ? sizeof(*chunk.features) : sizeof(*chunk.values);
        sums_[file] = crc32(bytes, n * width, sums_[file]);
    }
    // After the chunk.
    Finding close(int64_t begin, int64_t end) {
        Finding finding;
        if (!files_) return finding;
        const std::vector<StoredBlock>& blocks = files_->blocks();
        while (begin < end && blocks[block_].end_row <= begin) ++block_;  // has no rows
        for (; block_ < blocks.size() && blocks[block_].end_row <= end; ++block_) {
            for (size_t file = 0; file < 2; ++file)
                if (const int64_t sum = blocks[block_].checksums[file];
                    sum >= 0 && sum != int64_t(sums_[file]) && finding.fault == Fault::none)
                    finding = {file == 0 ? Fault::features_checksum : Fault::values_checksum, first_row_};
            sums_ = {0, 0};
            first_row_ = blocks[block_].end_row;
        }
        return finding;
    }

private:
    const EntryFiles* files_;
    size_t block_ = 0;
    int64_t first_row_ = 0;
    std::array<uint32_t, 2> sums_{0, 0};
};

}  // namespace

Finding Rows::inspect(int n_threads) {
    if (finding_) return *finding_;
    const int64_t n = n_rows();
    Finding worst = std::visit(
        [&](const auto& view) {
            if (!view.indptr) return Finding{};
            if (view.indptr[0] != 0) return Finding{Fault::indptr, 0};
            for (int64_t i = 0; i < n; ++i)
                if (view.indptr[i + 1] < view.indptr[i]) return Finding{Fault::indptr, i};
            return Finding{};
        },
        matrix_);
    if (worst.fault != Fault::none) return *(finding_ = worst);
    own_norm2_.assign(n, 0);
    double* const norm2 = own_norm2_.data();
    norm2_ = own_norm2_;
    BlockCheck check(files_.get());
    in_chunks(n, [&](const auto& view, int64_t begin, int64_t end) {
        const int64_t n_entries = view.indptr ? view.indptr[end] - view.indptr[begin] : (end - begin) * view.n_features;
        const int64_t of_block = rows_of_block(end - begin, n_entries);
        const int64_t n_blocks = (end - begin + of_block - 1) / of_block;
        std::vector<Finding> findings(n_blocks);
        parallel_blocks(check.n_files() + n_blocks, n_threads, [&](int64_t task, int) {
            if (task < check.n_files()) return check.add(view, begin, end, task);
            const int64_t block = task - check.n_files(), first = begin + block * of_block;
            const int64_t last = std::min(end, first + of_block);
            for (int64_t i = first; i < last; i += kTogether)
                sum_squares(view, i, std::min<int64_t>(kTogether, last - i), norm2 + i);
            for (int64_t i = first; i < last; ++i) {
                const Finding finding = {inspect_row(view, i, norm2[i]), i};
                if (worse(finding, findings[block])) findings[block] = finding;
            }
        });
        for (const Finding& finding : findings)
            if (worse(finding, worst)) worst = finding;
        if (const Finding finding = check.close(begin, end); worse(finding, worst)) worst = finding;
    });
    double largest = 0;
    for (double value : norm2_) largest = std::max(largest, value);
    max_norm_ = std::sqrt(largest);
    scale_ = scale_for(max_norm_);
    finding_ = worst;
    return worst;
}

bool Rows::take_norms(const double* norm2) {
    if (!std::equal(norm2_.begin(), norm2_.end(), norm2)) return false;
    norm2_ = {norm2, norm2_.size()};
    std::vector<double>().swap(own_norm2_);
    return true;
}

Rows Rows::select(const int64_t* ids, int64_t n_ids) const {
    Rows rows(matrix_, 0, n_columns_);
    rows.finding_ = finding_;
    rows.max_norm_ = max_norm_;
    rows.scale_ = scale_;
    rows.own_norm2_.resize(n_ids);
    rows.norm2_ = rows.own_norm2_;
    rows.selected_.resize(n_ids);
    std::visit(
        [&](auto& view) {
            for (int64_t i = 0; i < n_ids; ++i) {
                rows.own_norm2_[i] = norm2_[ids[i]];
                rows.selected_[i] = view.selected ? view.selected[ids[i]] : int32_t(ids[i]);
            }
            view.selected = rows.selected_.data();
            view.n_rows = n_ids;
        },
        rows.matrix_);
    return rows;
}

std::vector<int64_t> Rows::chunk_ends(int64_t n) const {
    std::vector<int64_t> ends;
    std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            constexpr int64_t kEntryBytes = sizeof(typename View::Value) + sizeof(typename View::Index);
            if (!streamed() || !view.indptr || view.selected) return;
            size_t block = 0;
            int64_t begin = 0;
            while (begin < n) {
                int64_t most = n;
                if (files_) {
                    while (files_->blocks()[block].end_row <= begin) ++block;
                    most = std::min(n, files_->blocks()[block].end_row);
                }
                const int64_t last = view.indptr[begin] + chunk_bytes_ / kEntryBytes;
                const int64_t* const end = std::upper_bound(view.indptr + begin + 1, view.indptr + most, last);
                begin = end - view.indptr;
                ends.push_back(begin);
            }
        },
        matrix_);
    if (ends.empty()) ends.push_back(n);
    return ends;
}

namespace {

template <class T>
void ask_for(const T* begin, const T* end) {
    static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    constexpr uintptr_t kPiece = 128 << 10;  // of a request the system may only heed so much
    const uintptr_t last = reinterpret_cast<uintptr_t>(end);
    // Where the system has other plans the pages come when they are read.
    for (uintptr_t at = reinterpret_cast<uintptr_t>(begin) & ~(page - 1); at < last; at += kPiece)
        (void)madvise(reinterpret_cast<void*>(at), std::min(kPiece, last - at), MADV_WILLNEED);
}

}  // namespace

void Rows::will_need(int64_t begin, int64_t end) const {
    if (!streamed()) return;
    std::visit(
        [&](const auto& view) {
            end = std::min(end, view.n_rows);
            if (!view.indptr || view.selected || begin >= end) return;
            ask_for(view.features + view.indptr[begin], view.features + view.indptr[end]);
            ask_for(view.values + view.indptr[begin], view.values + view.indptr[end]);
        },
        matrix_);
}

void Rows::read_ahead(int64_t begin, int64_t end) const {
    constexpr int64_t kStepBytes = int64_t(1) << 20, kSteps = 4;
    if (!streamed() || n_rows() == 0) return;
    const int64_t row_bytes = nnz() / n_rows() * 8 + 8;
    const int64_t step = std::max<int64_t>(kStepBytes / row_bytes, 1);
    if (begin == 0) will_need(0, kSteps * step);
    for (int64_t at = (begin + step - 1) / step * step; at < end; at += step)
        will_need(at + kSteps * step, at + (kSteps + 1) * step);
}

int64_t Rows::n_rows() const {
    return std::visit([](const auto& view) { return view.n_rows; }, matrix_);
}
int64_t Rows::n_features() const {
    return std::visit([](const auto& view) { return view.n_features; }, matrix_);
}
int64_t Rows::nnz(int64_t n) const {
    return std::visit([&](const auto& view) { return view.nnz(n); }, matrix_);
}

}  // namespace sparsecluster
