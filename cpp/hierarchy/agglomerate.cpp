// The generic algorithm (Müllner 2011, section 3.1): each cluster knows its nearest one, or a bound below that. Products
// with the sums of all other clusters come from lists by feature, or from adding those of the two that merged.
#include "hierarchy/agglomerate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <variant>

#include "core/centers.hpp"
#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "hierarchy/feature_lists.hpp"
#include "hierarchy/unit.hpp"

namespace sparsecluster {

namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr double kRounding2 = 1e-30;
constexpr int64_t kWorthThreads = 60'000;  // terms of a query

// Products of one cluster's sum with those of all others, kept as long as there is room.
class ProductCache {
public:
    explicit ProductCache(int64_t most) : most_(most) {}

    std::optional<std::vector<double>> take(int64_t cluster) {
        for (size_t at = 0; at < kept_.size(); ++at) {
            if (kept_[at].cluster != cluster) continue;
            std::vector<double> products = std::move(kept_[at].products);
            kept_.erase(kept_.begin() + int64_t(at));
            return products;
        }
        return {};
    }
    void keep(int64_t cluster, std::vector<double> products) {
        if (int64_t(kept_.size()) >= most_) kept_.erase(kept_.begin());  // the oldest
        kept_.push_back({cluster, std::move(products)});
    }
    void merge(int64_t one, int64_t other) {
        for (Kept& kept : kept_) {
            kept.products[one] += kept.products[other];
            kept.products[other] = 0;
        }
    }
    void renumber(const std::vector<int64_t>& left, const std::vector<int64_t>& number) {
        for (Kept& kept : kept_) {
            kept.cluster = number[kept.cluster];
            for (size_t c = 0; c < left.size(); ++c) kept.products[c] = kept.products[left[c]];
            kept.products.resize(left.size());
        }
    }

private:
    struct Kept {
        int64_t cluster;
        std::vector<double> products;
    };
    std::vector<Kept> kept_;
    int64_t most_;
};

// What the costs of merging with each cluster follow from, side by side. Clusters that are gone are infinitely far.
struct Measures {
    std::vector<double> inverse_size;
    std::vector<double> mean2;   // the squared norm of the mean
    std::vector<double> within;  // mean squared distance of the rows to the mean

    explicit Measures(int64_t n) : inverse_size(n), mean2(n), within(n) {}
    double size(int64_t c) const { return 1 / inverse_size[c]; }
    void remove(int64_t c) { inverse_size[c] = within[c] = 0, mean2[c] = kFar; }
    bool gone(int64_t c) const { return mean2[c] == kFar; }
};

// costs[i] of merging cluster c with i, from the product of their sums; -1 where the difference lost its digits.
template <class Cost>
inline void costs_by(const Cost& cost, double inverse_size, double mean2, const double* products, const double* inverse,
                     const double* means2, double* costs, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const double norms = mean2 + means2[i];
        const double distance2 = norms - 2 * (products[i] * (inverse_size * inverse[i]));
        costs[i] = distance2 < kCancelled * norms ? -1.0 : cost(distance2, i);
    }
}

FOR_EACH_PROCESSOR void ward_costs(double inverse_size, double mean2, const double* products, const double* inverse,
                                   const double* means2, double* costs, int64_t n) {
    costs_by([=](double distance2, int64_t i) { return 2 / (inverse_size + inverse[i]) * distance2; }, inverse_size,
             mean2, products, inverse, means2, costs, n);
}

FOR_EACH_PROCESSOR void centroid_costs(double inverse_size, double mean2, const double* products,
                                       const double* inverse, const double* means2, double* costs, int64_t n) {
    costs_by([](double distance2, int64_t) { return distance2; }, inverse_size, mean2, products, inverse, means2,
             costs, n);
}

FOR_EACH_PROCESSOR void average_costs(double inverse_size, double mean2, double within, const double* products,
                                      const double* inverse, const double* means2, const double* withins,
                                      double* costs, int64_t n) {
    costs_by([=](double distance2, int64_t i) { return distance2 + (within + withins[i]); }, inverse_size, mean2,
             products, inverse, means2, costs, n);
}

// The clusters that cost least to merge with, as far as they are known: all that are not listed cost at least `bound`,
// and those that cost just that have higher numbers than the listed ones that do. So the first is the cheapest; where
// none is listed any more, `bound` is all that is known.
class Nearest {
public:
    double best() const { return count_ > 0 ? costs_[0] : bound_; }
    int64_t cluster() const { return count_ > 0 ? clusters_[0] : -1; }

    static Nearest among(const std::vector<double>& costs) {
        Nearest found;
        for (int64_t i = 0; i < int64_t(costs.size()); ++i)
            if (costs[i] < found.bound_) found.insert(int32_t(i), costs[i]);
        return found;
    }

    // Clusters `low` and `high` became `low`, which costs this now. Answers whether the first has changed.
    bool merged(int32_t low, int32_t high, double cost) {
        bool listed = false;
        for (int i = 0; i < count_; ++i) listed |= clusters_[i] == low || clusters_[i] == high;
        if (!listed && cost > bound_) return false;
        int kept = 0;
        for (int i = 0; i < count_; ++i) {
            if (clusters_[i] == low || clusters_[i] == high) continue;
            clusters_[kept] = clusters_[i];
            costs_[kept++] = costs_[i];
        }
        count_ = kept;
        if (cost < bound_)
            insert(low, cost);
        else if (cost == bound_)  // its number may be lower than those of listed ones that cost the same
            while (count_ > 0 && costs_[count_ - 1] == bound_) --count_;
        return true;
    }
    void renumber(const std::vector<int64_t>& number) {
        for (int i = 0; i < count_; ++i) clusters_[i] = int32_t(number[clusters_[i]]);
    }

private:
    // One that costs less than the bound.
    void insert(int32_t cluster, double cost) {
        int at = count_;
        while (at > 0 && (costs_[at - 1] > cost || (costs_[at - 1] == cost && clusters_[at - 1] > cluster))) --at;
        if (at == kListed) {
            bound_ = cost;
            return;
        }
        if (count_ == kListed) bound_ = costs_[--count_];
        for (int i = count_++; i > at; --i) {
            clusters_[i] = clusters_[i - 1];
            costs_[i] = costs_[i - 1];
        }
        clusters_[at] = cluster;
        costs_[at] = cost;
    }

    static constexpr int kListed = 8;
    double bound_ = kFar;
    int32_t count_ = 0;
    int32_t clusters_[kListed];
    double costs_[kListed];
};

class Agglomeration {
public:
    Agglomeration(const Rows& rows, const AgglomerateOptions& options)
        : options_(options),
          n_features_(rows.n_features()),
          n_left_(rows.n_rows()),
          sums_(n_left_),
          nearest_(n_left_),
          best_(n_left_),
          row_(n_left_),
          of_(n_left_),
          cache_(std::clamp<int64_t>(options.cache_bytes / (8 * std::max<int64_t>(n_left_, 1)), 2, 512)) {
        std::iota(row_.begin(), row_.end(), 0);
        const std::vector<double> factors = row_factors(rows, options.unit);
        std::visit(
            [&](const auto& view) {
                for (int64_t i = 0; i < view.n_rows; ++i) {
                    const double size = options.weights ? options.weights[i] : 1.0;
                    start(i, view.row(i), size * factors[i], size);
                    if (i % 1024 == 0) poll_interrupt();
                }
            },
            rows.matrix());
        index_sums();
    }

    Merges run() {
        find_all_nearest();
        Merges merges;
        while (n_left_ > 1) {
            const int64_t one = cheapest();
            if (nearest_[one].cluster() < 0) {
                look_again(one);
                continue;
            }
            const int64_t other = nearest_[one].cluster(), low = std::min(one, other), high = std::max(one, other);
            merges.one.push_back(row_[low]);
            merges.other.push_back(row_[high]);
            merges.cost.push_back(merge(low, high));
            if (options_.on_merge) options_.on_merge(int64_t(merges.cost.size()));
            poll_interrupt();
        }
        return merges;
    }

private:
    int64_t n() const { return int64_t(sums_.size()); }

    template <class V, class I>
    void start(int64_t c, const Row<V, I>& row, double factor, double size) {
        Center& sum = sums_[c];
        sum.features.reserve(row.size);
        sum.values.reserve(row.size);
        for (int64_t e = 0; e < row.size; ++e) {
            const double value = factor * double(row.values[e]);
            if (value == 0) continue;
            sum.features.push_back(int32_t(row.features[e]));
            sum.values.push_back(value);
        }
        measure(c, size);
    }

    // What follows from the sum and the size of cluster c.
    void measure(int64_t c, double size) {
        sums_[c].compute_norm();
        of_.inverse_size[c] = 1 / size;
        of_.mean2[c] = sums_[c].norm2 / size / size;
    }

    // --- costs ---

    double direct2(int64_t a, int64_t b) const {
        const double distance2 =
            scaled_distance2(of_.inverse_size[a], as_row(sums_[a]), of_.inverse_size[b], as_row(sums_[b]));
        // Means of equal rows differ by rounding alone.
        return distance2 < kRounding2 * (of_.mean2[a] + of_.mean2[b]) ? 0.0 : distance2;
    }
    double cost_of(int64_t a, int64_t b, double distance2) const {
        switch (options_.linkage) {
            case Linkage::ward: return 2 / (of_.inverse_size[a] + of_.inverse_size[b]) * distance2;
            case Linkage::centroid: return distance2;
            case Linkage::average: return distance2 + (of_.within[a] + of_.within[b]);
        }
        return kFar;
    }
    // Of merging c with each cluster; infinite for c itself and for those that are gone.
    void find_costs(int64_t c, const std::vector<double>& products, std::vector<double>& costs) const {
        costs.resize(n());
        const double *inverse = of_.inverse_size.data(), *means2 = of_.mean2.data();
        if (options_.linkage == Linkage::ward)
            ward_costs(inverse[c], means2[c], products.data(), inverse, means2, costs.data(), n());
        else if (options_.linkage == Linkage::centroid)
            centroid_costs(inverse[c], means2[c], products.data(), inverse, means2, costs.data(), n());
        else
            average_costs(inverse[c], means2[c], of_.within[c], products.data(), inverse, means2, of_.within.data(),
                          costs.data(), n());
        costs[c] = kFar;
        for (int64_t i = 0; i < n(); ++i)
            if (costs[i] < 0) costs[i] = cost_of(c, i, direct2(std::min(c, i), std::max(c, i)));
    }

    // --- products ---

    // The lists hold the clusters as they are now; those that merge later are added up after a query.
    void index_sums() {
        lists_.build(n(), n_features_, [&](const auto& note) {
            for (int64_t c = 0; c < n(); ++c) {
                for (int64_t e = 0; e < sums_[c].size(); ++e)
                    note(c, int64_t(sums_[c].features[e]), sums_[c].values[e]);
                if (c % 1024 == 0) poll_interrupt();
            }
        });
        merged_.clear();
    }

    std::vector<double> query(const Center& sum) const {
        std::vector<double> products(n(), 0.0);
        const auto row = as_row(sum);
        const int64_t n_parts = lists_.work(row) < kWorthThreads ? 1 : options_.n_threads;
        parallel_blocks(n_parts, options_.n_threads, [&](int64_t p, int) {
            lists_.add(Product(), row, products.data(), n() * p / n_parts, n() * (p + 1) / n_parts);
        });
        for (const auto& [one, other] : merged_) {
            products[one] += products[other];
            products[other] = 0;
        }
        return products;
    }

    std::vector<double> merged_products(int64_t low, int64_t high, const Center& sum) {
        std::optional<std::vector<double>> one = cache_.take(low), other = cache_.take(high);
        if (!one && !other) return query(sum);
        if (!one) one = query(sums_[low]);
        if (!other) other = query(sums_[high]);
        for (size_t c = 0; c < one->size(); ++c) (*one)[c] += (*other)[c];
        return std::move(*one);
    }

    // --- the nearest ---

    void find_all_nearest() {
        std::vector<std::vector<double>> products(options_.n_threads), costs(options_.n_threads);
        parallel_blocks(n(), options_.n_threads, [&](int64_t c, int thread) {
            products[thread].assign(n(), 0.0);
            lists_.add(Product(), as_row(sums_[c]), products[thread].data(), 0, n());
            find_costs(c, products[thread], costs[thread]);
            set_nearest(c, costs[thread]);
        });
    }

    void set_nearest(int64_t c, const std::vector<double>& costs) {
        nearest_[c] = Nearest::among(costs);
        best_[c] = nearest_[c].best();
    }

    void look_again(int64_t c) {
        std::optional<std::vector<double>> products = cache_.take(c);
        if (!products) products = query(sums_[c]);
        find_costs(c, *products, costs_);
        set_nearest(c, costs_);
        cache_.keep(c, std::move(*products));
    }

    int64_t cheapest() const {
        return std::min_element(best_.begin(), best_.end()) - best_.begin();  // the first of equal ones
    }

    // --- merging ---

    // Cluster `high` becomes part of `low`. The cost is that of the difference of the means itself.
    double merge(int64_t low, int64_t high) {
        const double distance2 = direct2(low, high), found = cost_of(low, high, distance2);
        Center sum = combined(1.0, sums_[low], 1.0, as_row(sums_[high]));
        std::vector<double> products = merged_products(low, high, sum);
        const double one = of_.size(low), other = of_.size(high), size = one + other;
        of_.within[low] = (one * of_.within[low] + other * of_.within[high] + one * other / size * distance2) / size;
        sums_[low] = std::move(sum);
        measure(low, size);
        sums_[high] = Center();
        of_.remove(high);
        nearest_[high] = Nearest();
        best_[high] = kFar;
        merged_.emplace_back(low, high);
        cache_.merge(low, high);
        products[low] = products[high] = 0;
        --n_left_;
        find_costs(low, products, costs_);
        tell_others(low, high);
        set_nearest(low, costs_);
        cache_.keep(low, std::move(products));
        if (2 * n_left_ <= n() && n_left_ > 1) renumber();
        return found;
    }

    // What the merge of `low` and `high` means for the nearest of the others, by costs_.
    void tell_others(int64_t low, int64_t high) {
        for (int64_t c = 0; c < n(); ++c)
            if (nearest_[c].merged(int32_t(low), int32_t(high), costs_[c])) best_[c] = nearest_[c].best();
    }

    // Half of the clusters are gone: leave them out, and make the lists anew.
    void renumber() {
        std::vector<int64_t> left, number(n(), -1);
        for (int64_t c = 0; c < n(); ++c) {
            if (of_.gone(c)) continue;
            number[c] = int64_t(left.size());
            left.push_back(c);
        }
        const auto n_left = int64_t(left.size());
        for (int64_t c = 0; c < n_left; ++c) {
            const int64_t before = left[c];
            nearest_[c] = nearest_[before];
            nearest_[c].renumber(number);
            best_[c] = best_[before];
            row_[c] = row_[before];
            of_.inverse_size[c] = of_.inverse_size[before];
            of_.mean2[c] = of_.mean2[before];
            of_.within[c] = of_.within[before];
            if (c != before) sums_[c] = std::move(sums_[before]);
        }
        nearest_.resize(n_left);
        best_.resize(n_left);
        row_.resize(n_left);
        for (auto* measures : {&of_.inverse_size, &of_.mean2, &of_.within}) measures->resize(n_left);
        sums_.resize(n_left);
        cache_.renumber(left, number);
        index_sums();
    }

    const AgglomerateOptions& options_;
    int64_t n_features_, n_left_;
    std::vector<Center> sums_;
    std::vector<Nearest> nearest_;
    std::vector<double> best_;  // of nearest_
    std::vector<int64_t> row_;  // the lowest of each cluster
    Measures of_;
    FeatureLists lists_;
    std::vector<std::pair<int64_t, int64_t>> merged_;  // since the lists were made
    std::vector<double> costs_;
    ProductCache cache_;
};

}  // namespace

Linkage linkage_named(const std::string& name) {
    if (name == "ward") return Linkage::ward;
    if (name == "centroid") return Linkage::centroid;
    if (name == "average") return Linkage::average;
    throw std::invalid_argument("unknown linkage " + name);
}

Merges agglomerate(const Rows& rows, const AgglomerateOptions& options) {
    const TeamScope team(options.n_threads);
    Merges merges = Agglomeration(rows, options).run();
    for (double& cost : merges.cost) cost = options.unit ? cost : cost / rows.scale() / rows.scale();
    return merges;
}

}  // namespace sparsecluster
