package lab

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	_ "flyball.dev/internal/orphans"
)

// outsiders are operators that wait for something outside of their bubble.
var outsiders = map[string]func(t *testing.T) error{
	"socket": func(t *testing.T) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		return err
	},
	"pipe": func(t *testing.T) error {
		r, _, err := os.Pipe()
		if err != nil {
			return err
		}
		_, err = r.Read(make([]byte, 1))
		return err
	},
}

const outsider = "FLYBALL_LAB_OUTSIDER"

// TestOutside runs operators that wait for something outside of their bubble, each in a process of its own: the process
// ends, and names the goroutine.
func TestOutside(t *testing.T) {
	if name := os.Getenv(outsider); name != "" {
		stuckAfter = 2 * time.Second
		_, _ = Find(t, Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
			if err != nil {
				return nil, err
			}
			return mgr, mgr.Add(manager.RunnableFunc(func(context.Context) error { return outsiders[name](t) }))
		}}, Scenario{})
		return
	}
	for name := range outsiders {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOutside$")
		cmd.Env = append(os.Environ(), outsider+"="+name)
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: the process ended with %v, want an error in time", name, err)
		}
		for _, want := range []string{"waits for something outside of its bubble", "lab.init.func"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: the output lacks %q:\n%.3000s", name, want, out)
			}
		}
	}
}
