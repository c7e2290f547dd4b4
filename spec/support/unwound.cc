/*
 * unwound.cc - the same in C++: virtual functions, function objects, exceptions, a thread.
 */
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

static volatile unsigned long sink;

namespace ns {

template <class T> struct Box {
	T value;
	__attribute__((noinline, noipa)) T sum(int n) const
	{
		T all{};
		for (int i = 0; i < n; i++) {
			all += value * i;
			sink = sink + i;
		}
		return all;
	}
};

struct Base {
	virtual ~Base() {}
	virtual long work(int depth) = 0;
};
struct Calls : Base {
	long work(int depth) override;
};
struct Throws : Base {
	long work(int depth) override;
};

__attribute__((noinline)) Base *pick(int depth)
{
	static Calls calls;
	static Throws throws;

	return depth & 1 ? static_cast<Base *>(&calls) : &throws;
}

long Calls::work(int depth)
{
	volatile char room[64];
	room[1] = depth;
	std::function<long(int)> next = [&](int n) { return pick(n)->work(n) + room[1]; };
	return depth ? next(depth - 1) + 1 : Box<long>{3}.sum(20000);
}

long Throws::work(int depth)
{
	std::string text(depth + 20, 'x');

	if (depth)
		return pick(depth - 1)->work(depth - 1) + text.size();
	try {
		throw std::runtime_error(text);
	} catch (std::exception &) {
		return Box<int>{2}.sum(20000);
	}
}

}

int main(int argc, char **argv)
{
	int times = argc > 1 ? std::stoi(argv[1]) : 1;
	auto all = [times](int depth) {
		for (int i = 0; i < times; i++)
			sink = sink + ns::pick(depth)->work(depth);
	};
	std::thread other(all, 24);

	all(21);
	other.join();
	return 0;
}
