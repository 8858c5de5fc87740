package oldclient

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// shared has the clients of the control plane of all tests. A connection to port 7 of a pod with the label app=echo gets its own
// bytes back.
var shared struct {
	config *rest.Config
	kubernetes.Interface
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		runtime.LockOSThread() // the thread of flyball's start ends with this process
		stop, err := start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

// start builds flyball, and starts it.
func start() (stop func(), err error) {
	folder, err := os.MkdirTemp("", "flyball-oldclient-")
	if err != nil {
		return nil, err
	}
	flyball := filepath.Join(folder, "flyball")
	build := exec.Command("go", "build", "-tags=kustomize_disable_go_plugin_support", "-ldflags=-s -w", "-o", flyball, "./cmd/flyball")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go serveEcho(echo)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	up := exec.Command(flyball, "up", "--kubeconfig", kubeconfig, "--forward", "app=echo:7="+echo.Addr().String())
	up.Stderr = os.Stderr
	endWithThisThread(up)
	out, err := up.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := up.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = up.Process.Signal(os.Interrupt)
		_ = up.Wait()
		_ = echo.Close()
		_ = os.RemoveAll(folder)
	}
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			stop()
			return nil, fmt.Errorf("flyball up has ended: %v", lines.Err())
		}
		if strings.Contains(lines.Text(), "ready in") {
			break
		}
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // until it ends
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		stop()
		return nil, err
	}
	shared.config = config
	shared.Interface, err = kubernetes.NewForConfig(config)
	return stop, err
}

// serveEcho returns the bytes of each connection to its client.
func serveEcho(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
}

// mustClient returns a client.
func mustClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
