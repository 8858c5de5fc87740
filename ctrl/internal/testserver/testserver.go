// Package testserver has the API server of integration tests: a control plane in the process, or
// the cluster of the kubeconfig that the environment variable FLYBALL_TEST_KUBECONFIG names. With
// it, the tests of the runtime are run against a real kube-apiserver:
//
//	FLYBALL_TEST_KUBECONFIG=… go test -p 1 -count 1 ./ctrl/...
//
// and, if it has been built, against the one of the module test/oracle:
//
//	go run -C test/oracle . run -- go test -p 1 -count 1 ./ctrl/...
//
// The tests of all packages share that cluster, hence -p 1. It must be one for tests, without
// controllers and kubelets: most objects in it are deleted before each test.
package testserver

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// Variable is the environment variable with the name of a kubeconfig.
const Variable = "FLYBALL_TEST_KUBECONFIG"

// pause is how long [Wait] waits in real time: an API server on the same machine delivers its watch
// events and answers its requests much sooner.
const pause = 300 * time.Millisecond

// External reports whether the tests run against the cluster of a kubeconfig.
func External() bool { return os.Getenv(Variable) != "" }

// Test runs a test in virtual time, or in real time if the cluster is external.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if External() {
		f(t)
		return
	}
	synctest.Test(t, f)
}

// Wait waits until nothing happens any more, which in real time can only be assumed.
func Wait() {
	if External() {
		time.Sleep(pause)
		return
	}
	synctest.Wait()
}

// Eventually calls f until it returns no error, for what an API server does in the background, such
// as serving a new definition.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	var failure error
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), pause/10, 5*time.Minute, true,
		func(context.Context) (bool, error) {
			failure = f()
			return failure == nil, nil
		})
	if err != nil {
		t.Fatal(failure)
	}
}

// Start returns the configuration of an API server that has no objects of other tests: of a control
// plane without controllers, which is stopped after the test, or of the external cluster.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	if External() {
		return external(t)
	}
	cp, err := controlplane.Start(context.WithoutCancel(t.Context()), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cp.Config()
}

// external returns the configuration of the external cluster, once that is empty. After the test no
// connection is left.
func external(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(Variable))
	if err != nil {
		t.Fatal(err)
	}
	// client-go watches the files of a certificate for ever.
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	config.QPS = -1
	var connections connections
	config.Dial = connections.dial
	t.Cleanup(connections.close)
	if err := deleteObjects(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return config
}

// connections are the connections to a cluster.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // a client may have done so
	}
}
