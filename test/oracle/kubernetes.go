package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout bounds the start of kube-apiserver.
const startTimeout = 90 * time.Second

// kubernetes is a running kube-apiserver with its etcd.
type kubernetes struct {
	server *server
	// config is an administrator's configuration. Its certificates are files in the directory.
	config *rest.Config
	dir    string
	// processes run in process groups of their own and are stopped in reverse order.
	processes []*exec.Cmd
}

// startKubernetes starts etcd and kube-apiserver with the flags that kubeadm would set, and returns
// when it is ready.
func startKubernetes(ctx context.Context, b binaries) (_ *kubernetes, err error) {
	dir, err := os.MkdirTemp("", "flyball-oracle-")
	if err != nil {
		return nil, err
	}
	k := &kubernetes{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, k.log()), k.stop())
		}
	}()
	if err := writeCertificates(dir); err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcd, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	if err := k.run(b.etcd,
		"--name=default", "--data-dir="+filepath.Join(dir, "etcd"),
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync",
	); err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := k.run(b.apiserver,
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--secure-port="+ports[2], "--advertise-address=192.0.2.1",
		"--tls-cert-file="+file("server.crt"), "--tls-private-key-file="+file("server.key"), "--client-ca-file="+file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+file("accounts.key"), "--service-account-signing-key-file="+file("accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/12", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true", "--cert-dir="+dir,
	); err != nil {
		return nil, err
	}
	k.config = &rest.Config{Host: "https://127.0.0.1:" + ports[2], TLSClientConfig: rest.TLSClientConfig{
		CAFile: file("ca.crt"), CertFile: file("admin.crt"), KeyFile: file("admin.key"),
	}}
	if k.server, err = newServer("kube-apiserver "+kubernetesVersion, rest.CopyConfig(k.config)); err != nil {
		return nil, err
	}
	return k, k.ready(ctx)
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

// ready waits until kube-apiserver is ready.
func (k *kubernetes) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.server.url+"/readyz", nil)
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
			return fmt.Errorf("kube-apiserver is not ready: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// log returns the end of kube-apiserver's log.
func (k *kubernetes) log() string {
	content, _ := os.ReadFile(filepath.Join(k.dir, "kube-apiserver.log"))
	lines := strings.Split(string(content), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// stop ends the processes and removes their files.
func (k *kubernetes) stop() error {
	for i := len(k.processes) - 1; i >= 0; i-- {
		_ = k.processes[i].Process.Kill() // it may have exited
		_ = k.processes[i].Wait()
	}
	return os.RemoveAll(k.dir)
}

// freePorts returns ports on loopback that nothing listens on.
func freePorts(count int) ([]string, error) {
	var ports []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
