package dev

import (
	"strings"
	"testing"
)

// TestStacksAreFolded: stack traces after errors keep their frames in the project, and a crash keeps all frames.
func TestStacksAreFolded(t *testing.T) {
	const logged = `2026-11-23T05:41:02Z	ERROR	Reconciler error	{"controller": "widget"}
example.com/p/internal/controller.(*WidgetReconciler).Reconcile
	/home/me/p/internal/controller/widget_controller.go:57
sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller[...]).reconcileHandler
	/home/me/go/pkg/mod/sigs.k8s.io/controller-runtime@v0.25.2/pkg/internal/controller/controller.go:474
runtime.goexit
	/usr/local/go/src/runtime/asm_amd64.s:1771
2026-11-23T05:41:03Z	INFO	next.line
k8s.io/client-go.F
	/home/me/p-other/f.go:1
panic: no

goroutine 7 [running]:
k8s.io/client-go.F(0x7)
	/home/me/go/pkg/mod/k8s.io/client-go/f.go:12 +0x1d
created by main.main in goroutine 1
	/home/me/go/pkg/mod/x/main.go:7 +0x85
host.example.com
	an indented line.go:12
`
	const folded = `2026-11-23T05:41:02Z	ERROR	Reconciler error	{"controller": "widget"}
example.com/p/internal/controller.(*WidgetReconciler).Reconcile
	/home/me/p/internal/controller/widget_controller.go:57
	(stack trace: 4 lines are folded, which --stack-traces shows)
2026-11-23T05:41:03Z	INFO	next.line
	(stack trace: 2 lines are folded, which --stack-traces shows)
panic: no

goroutine 7 [running]:
k8s.io/client-go.F(0x7)
	/home/me/go/pkg/mod/k8s.io/client-go/f.go:12 +0x1d
created by main.main in goroutine 1
	/home/me/go/pkg/mod/x/main.go:7 +0x85
host.example.com
	an indented line.go:12
`
	for _, tt := range []struct {
		stacks *stacks
		want   string
	}{{&stacks{project: "/home/me/p"}, folded}, {nil, logged}} {
		var out strings.Builder
		w := &lineWriter{output: newOutput(&out), prefix: fromOperator, stacks: tt.stacks}
		if _, err := w.Write([]byte(logged)); err != nil {
			t.Fatal(err)
		}
		w.flush()
		if got := strings.ReplaceAll(out.String(), fromOperator+" | ", ""); got != tt.want {
			t.Errorf("written\n%s\nwant\n%s", got, tt.want)
		}
	}
}

// TestWholeLines: a line is written when it ends, and the rest by flush.
func TestWholeLines(t *testing.T) {
	var out strings.Builder
	w := &lineWriter{output: newOutput(&out), prefix: fromOperator, stacks: &stacks{}}
	for _, part := range []struct{ text, want string }{
		{"on", ""}, {"e\n\ntw", "one||"}, {"o\nexample.com/a.F\n", "two|example.com/a.F|"}, {"\t/a.go:7\nend", "\t/a.go:7|"},
	} {
		out.Reset()
		if _, err := w.Write([]byte(part.text)); err != nil {
			t.Fatal(err)
		}
		if got := strings.NewReplacer(fromOperator+" | ", "", "\n", "|").Replace(out.String()); got != part.want {
			t.Errorf("after %q: %q, want %q", part.text, got, part.want)
		}
	}
	out.Reset()
	if w.flush(); out.String() != fromOperator+" | end\n" {
		t.Errorf("at the end: %q", out.String())
	}
}

func TestBuildLog(t *testing.T) {
	var log buildLog
	expect := func(progress, errors string) {
		t.Helper()
		if log.String() != progress || log.errors() != errors {
			t.Errorf("progress %q, errors %q; want %q, %q", log.String(), log.errors(), progress, errors)
		}
	}
	write := func(text string) {
		t.Helper()
		if n, err := log.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	expect("generating and building", "")
	write("go: downloading k8s.io/api v0.37.2\ngo: downl")
	write("oading k8s.io/apimachinery v0.37.2\n")
	expect("downloading modules, the last one k8s.io/apimachinery v0.37.2", "")
	write("internal/goarch\n")
	expect("generating and building, with 1 package compiled", "")
	write("k8s.io/api/core/v1\nexample.com/p/cmd\n# example.com/p/cmd\ncmd/main.go:7:2: undefined: x\n\tmore")
	expect("generating and building, with 3 packages compiled", "# example.com/p/cmd\ncmd/main.go:7:2: undefined: x\n\tmore")
	log.reset()
	expect("generating and building", "")
}
