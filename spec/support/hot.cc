// hot.cc - templates, operators, lambdas and hidden names, where the time goes; for specs of symbols.
#include <cstdlib>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace ns {

template <class T> struct Box {
  std::vector<T> v;
  NOINLINE T sum() const { T s{}; for (auto &x : v) s += x; return s; }
  NOINLINE T operator()(int n) { T s{}; for (int i = 0; i < n; i++) s += sum(); return s; }
  NOINLINE bool operator<(const Box &other) const { return sum() < other.sum(); }
  NOINLINE explicit operator long() const { return sum(); }
};

template <class F> NOINLINE auto apply(F f, int n) -> decltype(f(n)) { return f(n) + 1; }

namespace {
NOINLINE long hidden(Box<long> &b) { return b(20) + (b < b) + long(b); }
}

NOINLINE long go() {
  Box<long> b;
  for (int i = 0; i < 20000; i++) b.v.push_back(i);
  return hidden(b) + apply([&](int n) { return b(10) + n; }, 1);
}

}

int main(int argc, char **argv) {
  long s = 0;
  for (int i = 0; i < (argc > 1 ? std::atoi(argv[1]) : 1); i++) s += ns::go();
  return s == 42;
}
