// Compiled without contraction: it decides between assignments of equal cost.
#include "sizes/size_tree.hpp"

namespace sparsecluster {

namespace {

// A gain has two costs, each of which lost less than a unit.
constexpr double kLeastUnits = 4;

}  // namespace

SizeTree::SizeTree(SizeBounds bounds, CostUnit unit, int64_t n_clusters, int64_t n_rows, int32_t* labels,
                   double* costs)
    : bounds_(bounds),
      unit_(unit),
      least_gain_(kLeastUnits * unit.unit()),
      pool_(n_clusters),
      all_full_(all_full(bounds, n_clusters, n_rows)),
      labels_(labels),
      costs_(costs),
      sizes_(n_clusters, 0),
      exact_prices_(n_clusters + 1, 0),
      prices_(n_clusters + 1, 0.0),
      parents_(n_clusters + 1, -1),
      first_child_(n_clusters + 1, -1),
      next_(n_clusters + 1, -1),
      previous_(n_clusters + 1, -1),
      links_(n_clusters + 1) {
    for (int64_t i = 0; i < n_rows; ++i) ++sizes_[labels[i]];
}

void SizeTree::hang(int64_t k, int64_t parent, TreeLink link) {
    put_below(k, parent, link);
    set_price(k, price_by_link(k));
}

void SizeTree::put_below(int64_t k, int64_t parent, TreeLink link) {
    parents_[k] = parent;
    links_[k] = link;
    previous_[k] = -1;
    next_[k] = first_child_[parent];
    if (next_[k] >= 0) previous_[next_[k]] = k;
    first_child_[parent] = k;
}

void SizeTree::unhang(int64_t k) {
    (previous_[k] >= 0 ? next_[previous_[k]] : first_child_[parents_[k]]) = next_[k];
    if (next_[k] >= 0) previous_[next_[k]] = previous_[k];
}

FixedCost SizeTree::price_by_link(int64_t k) const {
    return unit_.fixed(links_[k].above) + exact_prices_[parents_[k]] - unit_.fixed(links_[k].below);
}

void SizeTree::set_price(int64_t k, FixedCost price) {
    exact_prices_[k] = price;
    prices_[k] = unit_.rounded(price);
}

void SizeTree::shift_prices(int64_t top, FixedCost by) {
    stack_.assign(1, top);
    while (!stack_.empty()) {
        const int64_t k = stack_.back();
        stack_.pop_back();
        set_price(k, exact_prices_[k] + by);
        for (int64_t child = first_child_[k]; child >= 0; child = next_[child]) stack_.push_back(child);
    }
}

void SizeTree::set_prices() {
    stack_.assign(1, pool_);
    while (!stack_.empty()) {
        const int64_t k = stack_.back();
        stack_.pop_back();
        for (int64_t child = first_child_[k]; child >= 0; child = next_[child]) {
            set_price(child, price_by_link(child));
            stack_.push_back(child);
        }
    }
}

// Every cluster on the way from one up to another hands its row up, the last one too.
void SizeTree::hand_up(int64_t from, int64_t cut) {
    for (int64_t k = from;; k = parents_[k]) {
        if (links_[k].row >= 0) move(links_[k].row, parents_[k], links_[k].above);
        if (k == cut) return;
    }
}

// Takes what hangs below the cut off, and turns it so that it hangs on `from`. The rows on the way have been handed up.
void SizeTree::turn(int64_t from, int64_t cut) {
    int64_t k = from, parent = parents_[k];
    TreeLink link = links_[k];
    unhang(k);
    while (k != cut) {
        const int64_t next_parent = parents_[parent];
        const TreeLink next_link = links_[parent];
        unhang(parent);
        put_below(parent, k, {link.row, link.above, link.below});
        k = parent, parent = next_parent, link = next_link;
    }
}

void SizeTree::enter(int64_t row, int64_t to, double cost) {
    const int64_t from = labels_[row];
    const double own = costs_[row];
    const FixedCost gain =
        (unit_.fixed(own) + exact_prices_[from]) - (unit_.fixed(cost) + exact_prices_[to]);
    if (above(from, to)) {
        // The row goes down, others come up in turn.
        if (links_[from].row == row) {
            const int64_t parent = parents_[from];
            const double above_cost = links_[from].above;
            hand_up(to, child_towards(from, to));
            turn(to, from);
            put_below(to, parent, {row, cost, above_cost});
        } else {
            const int64_t cut = child_towards(from, to);
            hand_up(to, cut);
            turn(to, cut);
            put_below(to, from, {row, cost, own});
        }
        move(row, to, cost);
        shift_prices(to, gain);
    } else if (parents_[from] == pool_ && sizes_[from] > bounds_.least) {
        const int64_t cut = fill_place(child_towards(pool_, to), to);
        --sizes_[from];
        move(row, to, cost);
        if (cut < 0) return;
        turn(to, cut);
        put_below(to, from, {row, cost, own});
        shift_prices(to, gain);
    } else {
        // No row can take the place of this one: it stays, but its cluster hangs by it from now on.
        unhang(from);
        put_below(from, to, {row, own, cost});
        shift_prices(from, -gain);
    }
}

// The top cluster gets a row, handed up from `k`. Answers where the tree must be cut, -1 for nowhere.
int64_t SizeTree::fill_place(int64_t top, int64_t k) {
    ++sizes_[top];
    const int64_t cut = !may_grow(top) ? top : k == top ? -1 : child_towards(top, k);
    if (cut >= 0) hand_up(k, cut);
    return cut;
}

bool SizeTree::enter_pool() {
    if (all_full_) return false;
    bool any = false;
    for (int64_t k = 0; k < pool_; ++k) {
        const double rounding = kTie * (links_[k].below + links_[k].above);
        if (parents_[k] == pool_ || std::abs(prices_[k]) <= rounding) continue;
        if (prices_[k] > 0 && may_grow(k)) {
            unhang(k);
            put_below(k, pool_, {});
            shift_prices(k, -exact_prices_[k]);
            any = true;
        } else if (prices_[k] < 0 && sizes_[k] > bounds_.least) {
            leave_pool(k);
            any = true;
        }
    }
    return any;
}

// A cluster of negative price hands a row up for good.
void SizeTree::leave_pool(int64_t k) {
    const int64_t cut = fill_place(child_towards(pool_, k), k);
    --sizes_[k];
    turn(k, cut);
    put_below(k, pool_, {});
    shift_prices(k, -exact_prices_[k]);
}

}  // namespace sparsecluster
