package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"

	plane "flyball.dev/controlplane"
)

// ListenAddr is an address and port.
type ListenAddr struct {
	Address string
	Port    string
}

// URL returns the URL of a path at the address.
func (l *ListenAddr) URL(scheme string, path string) *url.URL {
	return &url.URL{Scheme: scheme, Host: l.HostPort(), Path: path}
}

// HostPort returns the address and port, joined.
func (l *ListenAddr) HostPort() string { return net.JoinHostPort(l.Address, l.Port) }

// SecureServing is how the API server serves HTTPS.
type SecureServing struct {
	// ListenAddr is where it listens; by default on a free port of 127.0.0.1, to which Start sets it.
	// An environment in memory does not listen.
	ListenAddr
	// CA is the certificate, in PEM, of the authority that has signed the API server's. Start
	// sets it.
	CA []byte
	// Authn makes the credentials of users. By default, which Start sets, these are client
	// certificates.
	Authn
}

// APIServer is the API server of a control plane.
//
// It takes the flags of kube-apiserver, and those act that act with the stand-in for kube-apiserver,
// which docs/testing.md lists, except for feature-gates and v, which concern the whole process, and
// cert-dir, since a certificate is made in memory unless there is a tls-cert-file. A flag that
// kube-apiserver does not have is an error. Unlike the program, the API server needs none. By default
// authorization-mode is RBAC, service-cluster-ip-range is 10.0.0.0/24, and disable-admission-plugins is
// ServiceAccount, as nothing creates service accounts.
type APIServer struct {
	// URL is the URL of the API server. Start sets it if it is nil. A port in it that is set before
	// Start has no effect: nothing is served insecurely.
	//
	// Deprecated: use SecureServing.
	URL *url.URL

	// SecurePort is the port of SecureServing, over which it takes precedence. Start sets it.
	//
	// Deprecated: use SecureServing.
	SecurePort int

	// SecureServing is how the API server serves HTTPS.
	SecureServing

	// InsecureServing has no effect.
	//
	// Deprecated: API servers do not serve without TLS any more.
	InsecureServing *ListenAddr

	// Path has no effect: there is no binary.
	Path string

	// Args are flags as templates, which are executed with this struct and added to the flags of Configure.
	//
	// Deprecated: use Configure.
	Args []string

	// CertDir is where the kubeconfigs of kubectl are written; by default to a temporary directory that
	// Stop removes. Certificates are made in memory.
	CertDir string

	// EtcdURL has no effect: there is no etcd.
	EtcdURL *url.URL

	// StartTimeout and StopTimeout have no effect.
	StartTimeout time.Duration
	StopTimeout  time.Duration

	// Err is where the control plane's controllers log, if it is not nil. Out has no effect.
	Out io.Writer
	Err io.Writer

	args          *Arguments
	selected      string // Environment.Controllers
	deletionDelay time.Duration
	inMemory      bool
	snapshot      string // Environment.Snapshot
	dialWebhook   func(ctx context.Context, network, address string) (net.Conn, error)
	plane         atomic.Pointer[plane.ControlPlane] // nil if it is not started
	tempDir       string                             // CertDir, if it is to be removed
	ownPort       bool                               // the port was not set before Start
	ownURL        bool
}

// Configure returns the flags, to be changed before Start.
func (s *APIServer) Configure() *Arguments {
	if s.args == nil {
		s.args = EmptyArguments()
	}
	return s.args
}

var errStarted = errors.New("the API server is started already: call Stop first")

// Start starts the control plane.
func (s *APIServer) Start() error {
	if s.plane.Load() != nil {
		return errStarted
	}
	if s.SecureServing.Authn == nil {
		s.SecureServing.Authn = &certAuthn{server: s}
	}
	if err := s.Authn.Configure(s.CertDir, s.Configure()); err != nil {
		return err
	}
	if err := s.Authn.Start(); err != nil {
		return err
	}
	options, err := s.options()
	if err != nil {
		return errors.Join(err, s.Authn.Stop())
	}
	p, err := plane.Start(context.Background(), options)
	if err != nil {
		return errors.Join(err, s.Authn.Stop())
	}
	s.plane.Store(p)
	s.CA = p.CA()
	if p.URL() == "" {
		return nil
	}
	listening, err := url.Parse(p.URL())
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	s.Address, s.Port = listening.Hostname(), listening.Port()
	s.SecurePort, _ = strconv.Atoi(s.Port)
	if s.ownURL = s.URL == nil; s.ownURL {
		s.URL = s.SecureServing.URL("https", "")
	}
	return nil
}

// Stop stops the control plane. Stopping one that is not started does nothing.
func (s *APIServer) Stop() error {
	p := s.plane.Swap(nil)
	if p == nil {
		return nil
	}
	errs := []error{p.Stop(), s.Authn.Stop()}
	if s.ownPort { // so that the next start gets a port that is free then
		s.Port, s.SecurePort = "", 0
	}
	if s.ownURL {
		s.URL = nil
	}
	if s.tempDir != "" {
		errs = append(errs, os.RemoveAll(s.tempDir))
		s.tempDir, s.CertDir = "", ""
	}
	return errors.Join(errs...)
}

// options returns the options of the control plane.
func (s *APIServer) options() (plane.Options, error) {
	o, err := s.flagOptions()
	if err != nil {
		return o, err
	}
	if err := s.setBehaviour(&o); err != nil {
		return o, err
	}
	if err := setSnapshot(&o, s.snapshot); err != nil {
		return o, err
	}
	o.DialWebhook = s.dialWebhook
	output := io.Discard
	if s.Err != nil {
		output = s.Err
	}
	o.Logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(output)))
	if s.inMemory {
		o.Listen = ""
	}
	return o, nil
}

// certDir returns CertDir, and makes a temporary directory for it if it is not set.
func (s *APIServer) certDir() (string, error) {
	if s.CertDir == "" {
		dir, err := os.MkdirTemp("", "envtest-apiserver-")
		if err != nil {
			return "", fmt.Errorf("unable to make a directory for the API server: set CertDir, or the environment variable TMPDIR, "+
				"to a directory that can be written: %w", err)
		}
		s.CertDir, s.tempDir = dir, dir
	}
	return s.CertDir, nil
}

// Etcd stands for the storage of the control plane, which is in memory. Its fields have no effect.
type Etcd struct {
	URL *url.URL

	Path    string
	Args    []string
	DataDir string

	StartTimeout time.Duration
	StopTimeout  time.Duration

	Out io.Writer
	Err io.Writer

	args *Arguments
}

// Configure returns flags, which have no effect.
func (e *Etcd) Configure() *Arguments {
	if e.args == nil {
		e.args = EmptyArguments()
	}
	return e.args
}

// Start does nothing.
func (e *Etcd) Start() error { return nil }

// Stop does nothing.
func (e *Etcd) Stop() error { return nil }

// User is a user to be added.
type User struct {
	Name   string
	Groups []string
}

// Authn makes users that an API server authenticates. Configure is called first, then Start, both
// before the API server starts, and Stop after it has stopped.
type Authn interface {
	// Configure may set flags of the API server. The directory is APIServer.CertDir, which may be
	// empty.
	Configure(workDir string, args *Arguments) error
	// Start makes AddUser ready to be called.
	Start() error
	// AddUser returns a copy of base with the credentials of a user.
	AddUser(user User, base *rest.Config) (*rest.Config, error)
	// Stop releases what the others have made.
	Stop() error
}

// certAuthn makes users with client certificates of the control plane's authority.
type certAuthn struct{ server *APIServer }

func (*certAuthn) Configure(string, *Arguments) error { return nil }
func (*certAuthn) Start() error                       { return nil }
func (*certAuthn) Stop() error                        { return nil }

func (c *certAuthn) AddUser(user User, base *rest.Config) (*rest.Config, error) {
	p := c.server.plane.Load()
	if p == nil {
		return nil, fmt.Errorf("unable to provision user %q: %w", user.Name, errNotStarted)
	}
	own, err := p.UserConfig(user.Name, user.Groups...)
	if err != nil {
		return nil, fmt.Errorf("unable to provision user %q: %w", user.Name, err)
	}
	cfg := rest.CopyConfig(base)
	if c.server.inMemory {
		cfg.Host, cfg.Transport = own.Host, own.Transport
	} else {
		cfg.CertData, cfg.KeyData = own.CertData, own.KeyData
	}
	return cfg, nil
}
