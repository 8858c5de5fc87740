package lab

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// goroutine is a goroutine in a bubble, as the runtime prints it.
type goroutine struct {
	state   string // such as "sync.Mutex.Lock" or "select (durable)"
	stack   string
	frames  []stackFrame // the innermost first
	creator string       // the function with the go statement
}

// stackFrame is a function on the stack of a goroutine.
type stackFrame struct {
	function string
	args     string // such as "0xc000012345, 0x1", or "..."
	line     string
}

var bubbled = regexp.MustCompile(`^goroutine \d+ \[(.*), synctest bubble (\d+)[\],]`)

// bubbleOf returns the number of the bubble of the caller, or "".
func bubbleOf() string {
	buffer := make([]byte, 256)
	if m := bubbled.FindSubmatch(buffer[:runtime.Stack(buffer, false)]); m != nil {
		return string(m[2])
	}
	return ""
}

// goroutinesOf returns the goroutines in a bubble.
func goroutinesOf(bubble string) []*goroutine {
	buffer := make([]byte, 16<<20)
	return parseGoroutines(string(buffer[:runtime.Stack(buffer, true)]), bubble)
}

// parseGoroutines returns the goroutines of a bubble in a dump of all goroutines.
func parseGoroutines(dump, bubble string) (all []*goroutine) {
	for stack := range strings.SplitSeq(strings.TrimSpace(dump), "\n\n") {
		header, rest, _ := strings.Cut(stack, "\n")
		m := bubbled.FindStringSubmatch(header)
		if m == nil || m[2] != bubble {
			continue
		}
		g := &goroutine{stack: stack}
		g.state, _, _ = strings.Cut(m[1], ",") // without the minutes
		lines := strings.Split(rest, "\n")
		for i := range len(lines) - 1 {
			if strings.HasPrefix(lines[i+1], "\t") {
				g.add(lines[i], lines[i+1])
			}
		}
		all = append(all, g)
	}
	return all
}

// add adds the two lines of a function.
func (g *goroutine) add(function, place string) {
	if creator, ok := strings.CutPrefix(function, "created by "); ok {
		g.creator, _, _ = strings.Cut(creator, " in goroutine ")
		return
	}
	f := stackFrame{function: function}
	if i := strings.LastIndexByte(function, '('); i > 0 {
		f.function, f.args = function[:i], strings.TrimSuffix(function[i+1:], ")")
	}
	place, _, _ = strings.Cut(strings.TrimSpace(place), " +0x")
	f.line = place[strings.LastIndexByte(place, ':')+1:]
	g.frames = append(g.frames, f)
}

// waits matches the functions that only wait for others.
var waits = regexp.MustCompile(`^(runtime|sync|internal|os|io|net|syscall|time|bufio|testing/synctest)[./]`)

// place returns the first function on the stack that does more than wait.
func (g *goroutine) place() (f stackFrame) {
	for _, f := range g.frames {
		if !waits.MatchString(f.function) {
			return f
		}
	}
	if len(g.frames) > 0 {
		return g.frames[0]
	}
	return f
}

// String says what the goroutine does, where, and who has started it.
func (g *goroutine) String() string {
	f := g.place()
	text := fmt.Sprintf("a goroutine in %s, line %s (%s)", f.function, f.line, strings.TrimSuffix(g.state, " (durable)"))
	if starter := g.starter(); starter != "" {
		text += ", started by " + starter
	}
	return text
}

// starter returns the function that has started the goroutine, or the outermost one if a WaitGroup or a timer has.
func (g *goroutine) starter() string {
	if !waits.MatchString(g.creator) {
		return g.creator
	}
	for _, f := range slices.Backward(g.frames) {
		if !waits.MatchString(f.function) {
			return f.function
		}
	}
	return ""
}

// blocked reports whether only a goroutine of its bubble, or time, can wake the goroutine.
func (g *goroutine) blocked() bool {
	return strings.HasSuffix(g.state, "(durable)") || strings.HasPrefix(g.state, "synctest.")
}

// runs reports whether the goroutine runs, or would if it had a processor.
func (g *goroutine) runs() bool {
	switch g.state {
	case "running", "runnable", "preempted":
		return true
	}
	return strings.HasPrefix(g.state, "GC ") // and helps the garbage collector
}

// locks reports whether the goroutine waits for a mutex.
func (g *goroutine) locks() bool {
	return strings.HasPrefix(g.state, "sync.Mutex.") || strings.HasPrefix(g.state, "sync.RWMutex.")
}

// isOthers reports whether the goroutine belongs to the lab, or to a library of Kubernetes or of Flyball, as far as its place tells.
func (g *goroutine) isOthers() bool {
	for _, of := range []string{"flyball.dev/lab.", "flyball.dev/ctrl/", "flyball.dev/controlplane", "flyball.dev/apiserver", "flyball.dev/controllers",
		"flyball.dev/storage", "k8s.io/", "testing."} {
		if strings.HasPrefix(g.place().function, of) {
			return true
		}
	}
	return false
}

// describeAll says what goroutines do, each once, and the operator's first.
func describeAll(all []*goroutine) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *goroutine) int {
		if a.isOthers() != b.isOthers() {
			if b.isOthers() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.String(), b.String())
	})
	const most = 3
	var texts []string
	for _, g := range all {
		if text := g.String(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("and %d more places", len(texts)-most))
	}
	return strings.Join(texts, "; ")
}

// stacksOf returns the stacks of goroutines.
func stacksOf(all []*goroutine) string {
	texts := make([]string, len(all))
	for i, g := range all {
		texts[i] = g.stack
	}
	return strings.Join(texts, "\n\n")
}

// likelyHolders returns the goroutines that may hold the mutex for which another one waits. The runtime does not tell. The likeliest has
// the same receiver on its stack, the next one a receiver of the same type, and the last one a function of the same package.
func likelyHolders(waiter *goroutine, all []*goroutine) (holders []*goroutine) {
	best := 1
	for _, g := range all {
		if g.locks() || !g.blocked() || g.isRoot() {
			continue
		}
		switch n := likeness(waiter.place(), g.frames); {
		case n > best:
			best, holders = n, []*goroutine{g}
		case n == best:
			holders = append(holders, g)
		}
	}
	return holders
}

// isRoot reports whether the goroutine is the one that began the bubble, or the lab's.
func (g *goroutine) isRoot() bool {
	return strings.HasPrefix(g.state, "synctest.") || strings.HasPrefix(g.creator, "testing.") || strings.HasPrefix(g.creator, "testing/")
}

// likeness says how much the functions of a stack have to do with a function: 0 for nothing.
func likeness(f stackFrame, stack []stackFrame) (most int) {
	for _, other := range stack {
		n := 0
		switch {
		case packageOf(other.function) != packageOf(f.function):
		case typeOf(other.function) != typeOf(f.function):
			n = 1
		case f.receiver() == "" || other.receiver() != f.receiver():
			n = 2
		default:
			n = 3
		}
		most = max(most, n)
	}
	return most
}

// packageOf returns the package of a function such as flyball.dev/lab.(*world).run.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + name
}

// typeOf returns the package and the receiver's type of a method, and of another function its package and name.
func typeOf(function string) string {
	rest := strings.TrimPrefix(function, packageOf(function)+".")
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "(*"), ".")
	return packageOf(function) + "." + strings.TrimSuffix(name, ")")
}

// receiver returns the pointer to the receiver of a method, or "" if it is not known.
func (f stackFrame) receiver() string {
	first, _, _ := strings.Cut(f.args, ",")
	if !strings.Contains(f.function, "(*") || !strings.HasPrefix(first, "0x") {
		return ""
	}
	return strings.TrimSuffix(first, "?")
}
