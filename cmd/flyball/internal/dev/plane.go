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
	"k8s.io/client-go/rest"

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
	options.Controllers.Pods.Script = s.Script
	if s.DataDir == "" {
		options.Storage = memory.New(memory.Options{CompressAfter: 10 * time.Second})
	}
	var err error
	s.plane, err = controlplane.Start(context.Background(), options)
	if err != nil {
		return err
	}
	config := s.plane.Config()
	config.WarningHandler = rest.NewWarningWriter(s.out.own(), rest.WarningWriterOptions{Deduplicate: true, Color: s.out.colour})
	s.installer, err = newInstaller(config, s.manifests)
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

// webhookHost is the address at which an operator serves its webhooks.
const webhookHost = "127.0.0.1"

// makeCertificate makes the certificate of the operator's webhook server.
func (s *session) makeCertificate() (err error) {
	s.installer.address = net.JoinHostPort(webhookHost, strconv.Itoa(s.WebhookPort))
	s.installer.ca, err = writeCertificate(s.dir)
	return err
}

// writeCertificate writes a certificate for a webhook server to the folder below dir, the one for temporary files, where webhook servers
// look by default. It returns the certificate of the authority.
func writeCertificate(dir string) (ca []byte, err error) {
	pair, err := selfsigned.New("localhost", 365*24*time.Hour, []string{"localhost", webhookHost})
	if err != nil {
		return nil, err
	}
	certificate, key, err := pair.PEM()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "k8s-webhook-server", "serving-certs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return pair.CAPEM(), errors.Join(os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600))
}
