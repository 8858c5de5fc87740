package signals

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	_ "flyball.dev/internal/orphans"
)

// TestMain is also the program that the tests send signals to.
func TestMain(m *testing.M) {
	if os.Getenv("WAIT_FOR_SIGNALS") == "" {
		os.Exit(m.Run())
	}
	ctx := SetupSignalHandler()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("asked")
	select {}
}

func TestTwoSignals(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), "WAIT_FOR_SIGNALS=yes")
		out, err := program.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for _, want := range []string{"ready", "asked"} {
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("the program printed %q, want %q", lines.Text(), want)
			}
			if err := program.Process.Signal(first); err != nil {
				t.Fatal(err)
			}
		}
		var exit *exec.ExitError
		if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("the program ended with %v", err)
		}
	}
}

func TestOnlyOnce(t *testing.T) {
	installed.Store(true)
	defer installed.Store(false)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	SetupSignalHandler()
}
