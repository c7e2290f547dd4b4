// hot.go - methods, closures and goroutines, where the time goes; for specs of symbols.
package main

import (
	"os"
	"strconv"
)

type box struct{ n int }

var sink int

//go:noinline
func spin(n int) int {
	for i := 0; i < n; i++ {
		sink += i * i
	}
	return sink
}

//go:noinline
func (b *box) work(n int) int {
	return spin(b.n) + n
}

//go:noinline
func apply(f func(int) int, n int) int {
	return f(n) + 1
}

func main() {
	times, _ := strconv.Atoi(os.Args[1])
	b, done := &box{200000}, make(chan int)
	for i := 0; i < times; i++ {
		b.work(i)
		go func() { done <- apply(func(n int) int { return spin(200000) + n }, i) }()
		<-done
	}
}
