package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// checkExec executes commands in a pod.
func checkExec(t *testing.T, client kubernetes.Interface, name string, executor func(*url.URL) (remotecommand.Executor, error)) {
	t.Helper()
	old := strings.HasPrefix(name, "SPDY v")
	large := strings.Repeat("0123456789abcdef", 20_000)
	for _, tc := range []struct {
		stdin, want, stderr string
		code                int
		command             []string
	}{
		{"", "hello\n", "", 0, []string{"sh", "-c", "echo $GREETING"}},
		{"", "", "oops\n", 3, []string{"sh", "-c", "echo oops >&2; exit 3"}},
		{"typed\n", "typed\n", "", 0, []string{"cat"}},
		{large, large, "", 0, []string{"cat"}},
		{large, "320000\n", "", 0, []string{"wc", "-c"}},
		{"x", "", "", 0, []string{"true"}},
		{"", "", "exec: \"psql\": executable file not found in $PATH\n", 127, []string{"psql"}},
	} {
		if name == "SPDY v1" && (tc.stdin != "" || tc.code != 0) {
			continue // the first version closes the input at once, and its client does not wait for the code
		}
		out, stderr, err := run(t.Context(), client, executor, "web", tc.stdin, false, tc.command...)
		code := 0
		var exit utilexec.CodeExitError
		switch {
		case errors.As(err, &exit):
			code = exit.Code
		case err != nil && old:
			fmt.Sscanf(err.Error()[max(0, strings.LastIndex(err.Error(), " ")+1):], "%d", &code)
		case err != nil:
			t.Errorf("%s: %q: %v", name, tc.command, err)
		}
		if out != tc.want || stderr != tc.stderr || code != tc.code {
			t.Errorf("%s: %q has the output %.80q, %q and the code %d (%v); want %.80q, %q and %d", name, tc.command, out, stderr, code, err, tc.want, tc.stderr, tc.code)
		}
	}
	if name == "SPDY v1" {
		return // its streams have no terminal
	}
	if out, _, err := run(t.Context(), client, executor, "web", "echo $((6*7))\rexit\r", true, "sh"); err != nil || !strings.Contains(out, "42\r\n") {
		t.Errorf("%s: a terminal shows %q, %v", name, out, err)
	}
}

func TestExec(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, cfg)
	createRunning(t, client, sleeper("web"))
	for name, executor := range httpsExecutors(cfg) {
		checkExec(t, client, name, executor)
	}
}

func TestExecInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		for name, executor := range inProcessExecutors(plane) {
			checkExec(t, client, name, executor)
			start := time.Now()
			if out, _, err := run(t.Context(), client, executor, "web", "", false, "sh", "-c", "sleep 1h | cat; echo done"); out != "done\n" || err != nil || time.Since(start).Round(time.Minute) != time.Hour {
				t.Errorf("%s: sleep takes %v, and has the output %q, %v", name, time.Since(start), out, err)
			}
		}
	})
}

// TestManyCommands executes 1,000 commands at once.
func TestManyCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		executor := inProcessExecutors(plane)["WebSocket"]
		if _, err := plane.Pods().HandleExec(runtime.Selector{Command: "wait"}, func(ctx context.Context, p *runtime.Process) int {
			time.Sleep(time.Minute) // virtual
			fmt.Fprint(p.Stdout, p.Args[1])
			return 0
		}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if out, _, err := run(t.Context(), client, executor, "web", "", false, "wait", fmt.Sprint(i)); err != nil || out != fmt.Sprint(i) {
					t.Errorf("%d: %q, %v", i, out, err)
				}
			})
		}
		all.Wait()
		if d := time.Since(start); d > 70*time.Second {
			t.Errorf("1,000 commands of a minute take %v", d)
		}
	})
}

// TestSlowReader: a client that does not read holds back nobody else.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		pod := sleeper("web")
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 5; for i in $(seq 3000); do echo a line of the log that is long enough to fill all buffers $i; done; echo end; sleep 1d"}
		createRunning(t, client, pod)
		slow, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fast, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer fast.Close()
		n := 0
		for lines := bufio.NewScanner(fast); lines.Scan() && lines.Text() != "end"; {
			n++
		}
		if n != 3000 {
			t.Errorf("%d lines", n)
		}
		slow.Close()
	})
}

// TestOddCommands executes commands with streams that are wrong.
func TestOddCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		at := execURL(client, "web", &corev1.PodExecOptions{Command: []string{"echo", "hi"}, Stdout: true})
		conn := connectSPDY(t, plane, at, "v4.channel.k8s.io")
		for _, kind := range []string{"", "stdin", "resize", "nonsense"} {
			if !refuses(conn, "streamType", kind) {
				t.Errorf("a stream of the type %q is accepted", kind)
			}
		}
		status := createStream(t, conn, "streamType", "error")
		if !refuses(conn, "streamType", "error") {
			t.Error("a second stream for the status is accepted")
		}
		out, err := io.ReadAll(createStream(t, conn, "streamType", "stdout"))
		text, _ := io.ReadAll(status)
		if string(out) != "hi\n" || err != nil || !strings.Contains(string(text), `"status":"Success"`) {
			t.Errorf("the output is %q, %v, and the status %s", out, err, text)
		}
		<-conn.CloseChan()
		// A client that creates no streams.
		start := time.Now()
		conn = connectSPDY(t, plane, at, "v4.channel.k8s.io")
		if <-conn.CloseChan(); time.Since(start).Round(time.Second) != 30*time.Second {
			t.Errorf("a client without streams stays %v", time.Since(start))
		}
		code, body := controlplanetest.Sender(t, plane.Config())("POST", "/api/v1/nodes/flyball/proxy/run/default/web/c?cmd=seq+300000", "", "")
		if code != 200 || len(body) != 1<<20 || !strings.HasPrefix(string(body), "1\n2\n") {
			t.Errorf("/run with a long output: %d, %d bytes", code, len(body))
		}
	})
}

// sizes are the sizes of a terminal that a client sends.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// TestTerminalSizes: a command learns the size of its terminal, and each change.
func TestTerminalSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client := controlplanetest.ClientFor(t, plane.Config())
		createRunning(t, client, sleeper("web"))
		if _, err := plane.Pods().HandleExec(runtime.Selector{Command: "top"}, func(_ context.Context, p *runtime.Process) int {
			for size := range p.Resize {
				if fmt.Fprintf(p.Stdout, "%dx%d ", size.Width, size.Height); size.Width == 3 {
					return 0
				}
			}
			return 1
		}); err != nil {
			t.Fatal(err)
		}
		for name, executor := range inProcessExecutors(plane) {
			e, err := executor(execURL(client, "web", &corev1.PodExecOptions{Command: []string{"top"}, Stdout: true, TTY: true}))
			if err != nil {
				t.Fatal(err)
			}
			queue := make(sizes, 3)
			for width := range uint16(3) {
				queue <- remotecommand.TerminalSize{Width: width + 1, Height: 10}
			}
			var out output
			err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: queue})
			// A process that is slow misses sizes, except for the last one.
			if err != nil || !slices.Contains([]string{"1x10 2x10 3x10 ", "1x10 3x10 ", "2x10 3x10 ", "3x10 "}, out.String()) {
				t.Errorf("%s: %q, %v", name, out.String(), err)
			}
			close(queue)
		}
		time.Sleep(time.Minute) // virtual: client-go's heartbeats end
	})
}

// TestLargeInput sends much more to a command than any buffer holds.
func TestLargeInput(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, cfg)
	createRunning(t, client, sleeper("web"))
	const size = 48 << 20
	for _, name := range []string{"WebSocket", "SPDY"} {
		for _, tc := range []struct {
			want    string
			command []string
		}{
			{fmt.Sprintln(size), []string{"wc", "-c"}},
			{"x", []string{"head", "-c", "1"}}, // which does not read the rest
		} {
			e, err := httpsExecutors(cfg)[name](execURL(client, "web", &corev1.PodExecOptions{Command: tc.command, Stdin: true, Stdout: true}))
			if err != nil {
				t.Fatal(err)
			}
			var out output
			err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: io.LimitReader(xs{}, size), Stdout: &out})
			if err != nil || out.String() != tc.want {
				t.Errorf("%s: %q: %q, %v", name, tc.command, out.String(), err)
			}
		}
	}
}

// xs is an endless reader.
type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestConcurrentCommands executes 100 commands at once over HTTPS.
func TestConcurrentCommands(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{Listen: "127.0.0.1:0"})
	cfg := controlplanetest.FromKubeconfig(t, plane)
	client := controlplanetest.ClientFor(t, cfg)
	createRunning(t, client, sleeper("web"))
	all := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(100)
	if _, err := plane.Pods().HandleExec(runtime.Selector{Command: "meet"}, func(_ context.Context, p *runtime.Process) int {
		arrived.Done()
		<-all
		fmt.Fprint(p.Stdout, p.Args[1])
		return 3
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		arrived.Wait() // until all run
		close(all)
	}()
	var clients sync.WaitGroup
	for i := range 100 {
		name := []string{"WebSocket", "SPDY"}[i%2]
		clients.Go(func() {
			out, _, err := run(t.Context(), client, httpsExecutors(cfg)[name], "web", "", false, "meet", fmt.Sprint(i))
			var exit utilexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 3 || out != fmt.Sprint(i) {
				t.Errorf("%s: %q, %v", name, out, err)
			}
		})
	}
	clients.Wait()
}
