package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/internal/reserve"
)

// startTimeout bounds the start of kube-apiserver.
const startTimeout = 90 * time.Second

// kubernetes is a running kube-apiserver with its etcd and, if it has one, its kube-controller-manager.
type kubernetes struct {
	server *server
	// config is an administrator's configuration. Its certificates are files in the directory.
	config *rest.Config
	dir    string
	// processes run in process groups of their own and are stopped in reverse order.
	processes []*exec.Cmd
	// ports reserve the ports of the processes.
	ports []io.Closer
}

// startKubernetes starts etcd and kube-apiserver with the flags that kubeadm would set, and returns
// when it is ready. The controllers are ready too, if they run.
func startKubernetes(ctx context.Context, b binaries) (_ *kubernetes, err error) {
	dir, err := os.MkdirTemp("", "flyball-oracle-")
	if err != nil {
		return nil, err
	}
	k := &kubernetes{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w; the ends of the logs:\n%s", err, k.log()), k.stop())
		}
	}()
	if err := writeCertificates(dir); err != nil {
		return nil, err
	}
	etcd := b.etcdServers
	if etcd == "" {
		if etcd, err = k.runEtcd(b); err != nil {
			return nil, err
		}
	}
	port, err := k.port()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := k.run(b.apiserver,
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--advertise-address=192.0.2.1",
		"--tls-cert-file="+file("server.crt"), "--tls-private-key-file="+file("server.key"), "--client-ca-file="+file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+file("accounts.key"), "--service-account-signing-key-file="+file("accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/12", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true", "--cert-dir="+dir,
	); err != nil {
		return nil, err
	}
	k.config = &rest.Config{Host: "https://127.0.0.1:" + port, TLSClientConfig: rest.TLSClientConfig{
		CAFile: file("ca.crt"), CertFile: file("admin.crt"), KeyFile: file("admin.key"),
	}}
	if k.server, err = newServer("kube-apiserver "+kubernetesVersion, rest.CopyConfig(k.config)); err != nil {
		return nil, err
	}
	if err := k.answers(ctx, "/readyz"); err != nil || !b.controllers {
		return k, err
	}
	return k, k.runControllers(ctx, b)
}

// runControllers starts kube-controller-manager, and returns when its controllers work.
func (k *kubernetes) runControllers(ctx context.Context, b binaries) error {
	file := func(name string) string { return filepath.Join(k.dir, name) }
	if err := writeKubeconfig(k.config, file("kubeconfig")); err != nil {
		return err
	}
	if err := k.run(b.controllerManager,
		"--kubeconfig="+file("kubeconfig"), "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
		"--root-ca-file="+file("ca.crt"), "--service-account-private-key-file="+file("accounts.key"),
		"--cluster-signing-cert-file="+file("ca.crt"), "--cluster-signing-key-file="+file("ca.key"),
	); err != nil {
		return err
	}
	return k.answers(ctx, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt") // that a controller creates
}

// runEtcd starts etcd and returns its URL.
func (k *kubernetes) runEtcd(b binaries) (url string, err error) {
	clients, err := k.port()
	if err != nil {
		return "", err
	}
	peers, err := k.port()
	if err != nil {
		return "", err
	}
	url, peer := "http://127.0.0.1:"+clients, "http://127.0.0.1:"+peers
	return url, k.run(b.etcd,
		"--name=default", "--data-dir="+filepath.Join(k.dir, "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, fmt.Sprintf("--unsafe-no-fsync=%t", !b.fsync),
	)
}

// newServer returns the server that a configuration is for.
func newServer(name string, config *rest.Config) (*server, error) {
	config.DisableCompression = true
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	without := rest.AnonymousClientConfig(config)
	without.DisableCompression = true
	anonymous, err := rest.HTTPClientFor(without)
	if err != nil {
		return nil, err
	}
	return &server{name: name, url: config.Host, client: client, anonymous: anonymous}, nil
}

// run starts a program. The output goes to a file in the directory.
func (k *kubernetes) run(program string, args ...string) error {
	log, err := os.Create(filepath.Join(k.dir, filepath.Base(program)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	k.processes = append(k.processes, cmd)
	return nil
}

// answers waits until kube-apiserver answers the request of a path with the status 200.
func (k *kubernetes) answers(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.server.url+path, nil)
		if err != nil {
			return err
		}
		if response, err := k.server.client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver does not answer %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// log returns the ends of the logs of the programs.
func (k *kubernetes) log() string {
	var ends []string
	for _, cmd := range k.processes {
		name := filepath.Base(cmd.Path)
		content, _ := os.ReadFile(filepath.Join(k.dir, name+".log"))
		lines := strings.Split(string(content), "\n")
		ends = append(ends, name+":\n"+strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return strings.Join(ends, "\n")
}

// stop ends the processes and removes their files.
func (k *kubernetes) stop() error {
	for i := len(k.processes) - 1; i >= 0; i-- {
		_ = k.processes[i].Process.Kill() // it may have exited
		_ = k.processes[i].Wait()
	}
	for _, held := range k.ports {
		_ = held.Close()
	}
	return os.RemoveAll(k.dir)
}

// port reserves a port of loopback until stop.
func (k *kubernetes) port() (string, error) {
	port, held, err := reserve.Port("127.0.0.1")
	if err != nil {
		return "", err
	}
	k.ports = append(k.ports, held)
	return strconv.Itoa(port), nil
}
