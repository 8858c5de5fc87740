package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubeconfig"
	"flyball.dev/internal/selfsigned"
	"flyball.dev/storage/memory"
)

// startPlane starts the control plane, and writes the kubeconfig of the administrator. The operator
// authenticates as another user, so that the audit log can tell them apart.
func (s *session) startPlane() error {
	start := time.Now()
	s.requests = &requests{lines: make(chan string, 10)}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	s.token = rand.Text()
	options := controlplane.Options{
		Listen: s.Listen, KubeconfigFile: s.Kubeconfig, DataDir: s.DataDir,
		Tokens: map[string]*user.DefaultInfo{s.token: {Name: operatorUser, Groups: []string{user.SystemPrivilegedGroup}}},
		Audit:  auditlog.Options{PolicyFile: policy, Writer: s.requests},
	}
	if s.DataDir == "" {
		options.Storage = memory.New(memory.Options{CompressAfter: 10 * time.Second})
	}
	var err error
	s.plane, err = controlplane.Start(context.Background(), options)
	if err != nil {
		return err
	}
	s.installer, err = newInstaller(s.plane.Config(), s.manifests)
	if err == nil {
		s.installer.asAdmin = s.AsAdmin
		err = s.makeCertificate()
	}
	if err != nil {
		return errors.Join(err, s.plane.Stop())
	}
	s.out.say("the control plane is at %s (%s); in another terminal:\n  export KUBECONFIG=%s", s.plane.URL(),
		seconds(time.Since(start)), s.Kubeconfig)
	return nil
}

func (s *session) operatorKubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// writeOperatorKubeconfig writes the kubeconfig of the operator, which acts as its service account.
func (s *session) writeOperatorKubeconfig() error {
	content, err := operatorConfig(s.plane.Kubeconfig(), s.token, s.installer.account)
	if err != nil {
		return err
	}
	return kubeconfig.Write(s.operatorKubeconfig(), content)
}

// makeCertificate makes the certificate of the operator's webhook server, in the folder below the
// one for temporary files where webhook servers look by default.
func (s *session) makeCertificate() error {
	const host, validity = "127.0.0.1", 365 * 24 * time.Hour
	pair, err := selfsigned.New("localhost", validity, []string{"localhost", host})
	if err != nil {
		return err
	}
	certificate, key, err := pair.PEM()
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "k8s-webhook-server", "serving-certs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s.installer.ca, s.installer.address = pair.CAPEM(), net.JoinHostPort(host, strconv.Itoa(s.WebhookPort))
	return errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
}
