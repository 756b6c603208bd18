// Views of rows: CSR, or dense rows seen as CSR rows that store every feature, or a selection of either. One
// code path for all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/entry_files.hpp"
#include "core/prefetch.hpp"

namespace sparsecluster {

template <class V, class I>
struct Row {
    const I* features;  // strictly ascending
    const V* values;
    int64_t size;
};

template <class V, class I>
struct Matrix {
    using Value = V;
    using Index = I;
    int64_t n_rows = 0;
    int64_t n_features = 0;
    const int64_t* indptr = nullptr;  // null for dense rows
    const I* features = nullptr;      // dense rows all share 0, 1, ..., n_features - 1
    const V* values = nullptr;
    const int32_t* selected = nullptr;  // row i is row selected[i] of the arrays; null for all rows

    // In every loop over rows; GCC takes it for too long.
    __attribute__((always_inline)) Row<V, I> row(int64_t i) const {
        if (selected) i = selected[i];
        if (!indptr) return {features, values + i * n_features, n_features};
        return {features + indptr[i], values + indptr[i], indptr[i + 1] - indptr[i]};
    }
    // Asks for row i to be brought into the cache.
    void prefetch(int64_t i) const {
        const Row<V, I> ahead = row(i);
        const int64_t n = std::min(ahead.size, kPrefetchedEntries);
        if (indptr) prefetch_lines(ahead.features, ahead.features + n);
        prefetch_lines(ahead.values, ahead.values + n);
    }
    // Asks for where row i begins, which prefetch() has to know.
    void prefetch_place(int64_t i) const {
        if (indptr && !selected) prefetch_line(indptr + i);
    }
    // Of rows that are read one after the other, up to the number `end` in some list, asks for the one that comes `ahead`
    // numbers after `at`, and for the place of one that comes later. listed(number) is a row.
    template <class Listed>
    void prefetch_listed(int64_t at, int64_t end, int64_t ahead, const Listed& listed) const {
        if (at + 2 * ahead < end) prefetch_place(listed(at + 2 * ahead));
        if (at + ahead < end) prefetch(listed(at + ahead));
    }
    int64_t nnz() const { return nnz(n_rows); }
    // Stored entries of the first `n` rows.
    int64_t nnz(int64_t n) const {
        if (!indptr) return n * n_features;
        if (!selected) return indptr[n];
        int64_t entries = 0;
        for (int64_t i = 0; i < n; ++i) entries += row(i).size;
        return entries;
    }
};

using AnyMatrix = std::variant<Matrix<float, int32_t>, Matrix<float, int64_t>,
                               Matrix<double, int32_t>, Matrix<double, int64_t>>;

// What is wrong with a matrix, and the row where it was seen first.
enum class Fault { none, indptr, feature_range, unsorted, not_finite, overflow, features_checksum, values_checksum };
struct Finding {
    Fault fault = Fault::none;
    int64_t row = -1;
};

// The power of two that float32 kernels multiply all values by where the longest vector has this norm: its squares
// do not overflow, and those of vectors that are shorter by twenty digits do not vanish.
double scale_for(double norm);

// Of so many rows, those that a thread takes at a time: fewer where they are long, so that there are some for every thread.
int64_t rows_of_block(int64_t n_rows, int64_t n_entries);

class Rows;

// As long as it exists, it is shown the chunks of streamed rows that passes of its thread have read, each when the pass is done
// with it: what else is to be done with these rows need not read them again. Passes take the longer for it.
class ChunkFollower {
public:
    using Visit = std::function<void(const AnyMatrix& view, int64_t begin, int64_t end)>;  // as Rows::in_chunks has them

    ChunkFollower(const Rows& rows, Visit visit) : rows_(rows), visit_(std::move(visit)), outer_(std::exchange(now_, this)) {}
    ~ChunkFollower() { now_ = outer_; }
    ChunkFollower(const ChunkFollower&) = delete;
    ChunkFollower& operator=(const ChunkFollower&) = delete;

private:
    friend class Rows;
    static thread_local const ChunkFollower* now_;

    const Rows& rows_;
    Visit visit_;
    const ChunkFollower* outer_;
};

// A matrix that passed inspection, with what every kernel wants to know about its rows. Nothing of it changes after
// that. The arrays behind the view belong to the caller and must outlive it.
class Rows {
public:
    // `chunk_bytes` above zero: rows of a file that is larger than memory. They are to be read from front to back, in
    // chunks of this size, and are asked for before they are needed; results do not depend on it.
    // `n_columns`: of the matrix as it was declared, where columns without entries are left out here.
    explicit Rows(AnyMatrix matrix, int64_t chunk_bytes = 0, std::optional<int64_t> n_columns = {})
        : matrix_(std::move(matrix)), chunk_bytes_(chunk_bytes), n_columns_(n_columns.value_or(n_features())) {}
    Rows(Rows&&) = default;  // no copies: a selection looks into itself

    // Has passes through all rows read them from these files, from which the arrays are mapped, and inspection compare
    // the checksums of their blocks. Before the inspection of streamed rows, all of whose entries are in the files.
    void read_from(std::shared_ptr<EntryFiles> files) { files_ = std::move(files); }

    // Checks the structure and the values, and computes the norms. Before any kernel; later calls answer the same.
    Finding inspect(int n_threads);
    // Whether inspection found no fault.
    bool sound() const { return finding_ && finding_->fault == Fault::none; }

    // These of the rows, in this order, without a copy of their entries.
    Rows select(const int64_t* ids, int64_t n_ids) const;

    bool streamed() const { return chunk_bytes_ > 0; }
    // Ends of runs of the first `n` rows that are small against memory; one run where rows are not streamed. None is
    // of two blocks of a file.
    std::vector<int64_t> chunk_ends(int64_t n) const;
    // Calls work(view, begin, end) for these runs of rows, front to back. In the view there are the rows of the run
    // alone where they are read from files, and of these only where wanted(begin, end): else it is that of all rows.
    template <class Work, class Wanted>
    void in_chunks(int64_t n, const Work& work, const Wanted& wanted) const;
    template <class Work>
    void in_chunks(int64_t n, const Work& work) const {
        in_chunks(n, work, [](int64_t, int64_t) { return true; });
    }
    // Has the system bring these rows into memory, meanwhile.
    void will_need(int64_t begin, int64_t end) const;
    // To be called on the way through all rows with what comes next: asks for what comes after that.
    void read_ahead(int64_t begin, int64_t end) const;

    int64_t n_rows() const;
    int64_t n_features() const;
    int64_t n_columns() const { return n_columns_; }
    int64_t nnz() const { return nnz(n_rows()); }
    int64_t nnz(int64_t n) const;  // of the first n rows

    const AnyMatrix& matrix() const { return matrix_; }
    std::span<const double> norm2() const { return norm2_; }  // squared norms, summed in feature order
    // Takes norms that are kept elsewhere, for as long as this object, in the place of its own, if they are the same.
    // After the inspection.
    bool take_norms(const double* norm2);
    double max_norm() const { return max_norm_; }
    double scale() const { return scale_; }  // scale_for(max_norm)

private:
    template <class View>
    void show(const View& chunk, int64_t begin, int64_t end) const {
        const ChunkFollower* const follower = ChunkFollower::now_;
        if (follower && &follower->rows_ == this) follower->visit_(chunk, begin, end);
    }

    AnyMatrix matrix_;
    int64_t chunk_bytes_, n_columns_;
    std::shared_ptr<EntryFiles> files_;
    std::optional<Finding> finding_;
    std::vector<double> own_norm2_;
    std::span<const double> norm2_;
    double max_norm_ = 0, scale_ = 1;
    std::vector<int32_t> selected_;
};

template <class Work, class Wanted>
void Rows::in_chunks(int64_t n, const Work& work, const Wanted& wanted) const {
    const std::vector<int64_t> ends = chunk_ends(n);
    std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            std::vector<char> read(ends.size());
            std::vector<EntryFiles::Ranges> ranges;
            int64_t begin = 0;
            for (size_t c = 0; c < ends.size(); begin = ends[c++]) {
                read[c] = streamed() && view.indptr && begin < ends[c] && wanted(begin, ends[c]);
                if (!read[c] || !files_) continue;
                const int64_t first = view.indptr[begin], last = view.indptr[ends[c]];
                ranges.push_back({std::pair(first * int64_t(sizeof(*view.features)), last * int64_t(sizeof(*view.features))),
                                  std::pair(first * int64_t(sizeof(*view.values)), last * int64_t(sizeof(*view.values)))});
            }
            std::optional<PieceReader> reader;
            if (!ranges.empty()) reader.emplace(files_, std::move(ranges));
            begin = 0;
            for (size_t c = 0; c < ends.size(); begin = ends[c++]) {
                View chunk = view;
                if (read[c] && reader) {
                    // Shifted, so that rows and entries have the numbers that they have among all.
                    const EntryFiles::Pieces pieces = reader->next();
                    chunk.features = reinterpret_cast<const typename View::Index*>(pieces[0]) - view.indptr[begin];
                    chunk.values = reinterpret_cast<const typename View::Value*>(pieces[1]) - view.indptr[begin];
                } else if (read[c]) {
                    will_need(begin, ends[c]);
                }
                work(chunk, begin, ends[c]);
                if (read[c]) show(chunk, begin, ends[c]);
            }
        },
        matrix_);
}

}  // namespace sparsecluster
