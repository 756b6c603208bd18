// Lays out the lists, and adds whole columns.
#include "hierarchy/feature_lists.hpp"

#include <variant>

#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// Where one vector in so many has a feature, its column is stored whole: no list is as fast.
constexpr int64_t kSharedByMany = 4;

FOR_EACH_PROCESSOR void add_multiple(double* totals, const double* column, double factor, int64_t n) {
    for (int64_t i = 0; i < n; ++i) totals[i] += factor * column[i];
}

}  // namespace

// From counts in begin_ to places of lists and columns.
void FeatureLists::lay_out() {
    const int64_t n_features = int64_t(begin_.size()) - 1;
    column_.assign(n_features, -1);
    int32_t n_columns = 0;
    for (int64_t f = 0; f < n_features; ++f) {
        const bool whole = begin_[f + 1] > 0 && kSharedByMany * begin_[f + 1] >= n_vectors_;
        if (whole) column_[f] = n_columns++;
        begin_[f + 1] = begin_[f] + (whole ? 0 : begin_[f + 1]);
    }
    vectors_.resize(begin_.back());
    values_.resize(begin_.back());
    columns_.assign(n_columns * n_vectors_, 0.0);
}

void FeatureLists::add_column(Product, double x, const double* column, double* totals, int64_t begin,
                              int64_t end) {
    add_multiple(totals + begin, column + begin, x, end - begin);
}

FeatureLists lists_of(const Rows& rows, const double* factors) {
    FeatureLists lists;
    std::visit(
        [&](const auto& view) {
            lists.build(view.n_rows, view.n_features, [&](const auto& note) {
                for (int64_t i = 0; i < view.n_rows; ++i) {
                    const auto row = view.row(i);
                    const double factor = factors ? factors[i] : 1.0;
                    for (int64_t e = 0; e < row.size; ++e)
                        note(i, int64_t(row.features[e]), factor * double(row.values[e]));
                    if (i % 1024 == 0) poll_interrupt();
                }
            });
        },
        rows.matrix());
    return lists;
}

template <class Term>
void total_terms(const Term& term, const Rows& queries, int64_t begin, int64_t end, const FeatureLists& lists,
                 double* out, int n_threads) {
    const int64_t n = lists.n_vectors();
    std::visit(
        [&](const auto& view) {
            parallel_blocks(end - begin, n_threads, [&](int64_t q, int) {
                std::fill_n(out + q * n, n, 0.0);
                lists.add(term, view.row(begin + q), out + q * n, 0, n);
            });
        },
        queries.matrix());
}

void pair_powers(const Rows& x, const Rows& y, const int64_t* one, const int64_t* other, int64_t n_pairs, double p,
                 double* out, int n_threads) {
    constexpr int64_t kBlock = 256;
    std::visit(
        [&](const auto& left, const auto& right) {
            parallel_blocks((n_pairs + kBlock - 1) / kBlock, n_threads, [&](int64_t b, int) {
                for (int64_t k = b * kBlock; k < std::min(n_pairs, (b + 1) * kBlock); ++k) {
                    const auto a = left.row(one[k]);
                    const auto c = right.row(other[k]);
                    if (p == 2)
                        out[k] = direct_distance2(a, c);
                    else if (p == 1)
                        out[k] = sum_over_features(a, c, [](double va, double vc) { return std::abs(va - vc); });
                    else
                        out[k] = sum_over_features(
                            a, c, [p](double va, double vc) { return std::pow(std::abs(va - vc), p); });
                }
            });
        },
        x.matrix(), y.matrix());
}

template void total_terms(const Product&, const Rows&, int64_t, int64_t, const FeatureLists&, double*, int);
template void total_terms(const Manhattan&, const Rows&, int64_t, int64_t, const FeatureLists&, double*, int);
template void total_terms(const Minkowski&, const Rows&, int64_t, int64_t, const FeatureLists&, double*, int);
template void total_terms(const Minimum&, const Rows&, int64_t, int64_t, const FeatureLists&, double*, int);
template void total_terms(const Mismatch&, const Rows&, int64_t, int64_t, const FeatureLists&, double*, int);

}  // namespace sparsecluster
