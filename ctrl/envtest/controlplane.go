package envtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	plane "flyball.dev/controlplane"
	"flyball.dev/ctrl/internal/testing/controlplane"
)

// ControlPlane is the control plane of an [Environment].
type ControlPlane struct {
	APIServer *APIServer
	Etcd      *Etcd

	// KubectlPath is the path of kubectl, for AuthenticatedUser.Kubectl. See the documentation of the
	// package for its default.
	KubectlPath string

	network *memoryNetwork // of webhooks; nil if they have sockets

	defaultUser *AuthenticatedUser // for the deprecated methods
}

// GetAPIServer returns APIServer, which it creates if it is nil.
func (f *ControlPlane) GetAPIServer() *APIServer {
	if f.APIServer == nil {
		f.APIServer = &APIServer{}
	}
	return f.APIServer
}

// Start starts the control plane. If it returns an error, nothing is started.
func (f *ControlPlane) Start() error {
	if f.Etcd == nil {
		f.Etcd = &Etcd{}
	}
	server := f.GetAPIServer()
	f.network = nil
	if server.inMemory {
		f.network = newMemoryNetwork()
		server.dialWebhook = f.network.DialContext
	}
	return server.Start()
}

// Stop stops the control plane and waits until nothing of it is left. Stopping one that is not
// started does nothing.
func (f *ControlPlane) Stop() error {
	if f.APIServer == nil {
		return nil
	}
	f.defaultUser = nil
	return f.APIServer.Stop()
}

// plane returns the control plane, or nil if it is not started.
func (f *ControlPlane) plane() *plane.ControlPlane {
	if f.APIServer == nil {
		return nil
	}
	return f.APIServer.plane.Load()
}

// APIURL returns the URL of the API server.
//
// Deprecated: use AddUser, or APIServer.SecureServing.URL for just the URL.
func (f *ControlPlane) APIURL() *url.URL { return f.GetAPIServer().URL }

// KubeCtl returns kubectl as an administrator, or nil if the control plane is not started.
//
// Deprecated: use AddUser and AuthenticatedUser.Kubectl.
func (f *ControlPlane) KubeCtl() *controlplane.KubeCtl {
	u, err := f.administrator()
	if err != nil {
		return nil
	}
	kubectl, err := u.Kubectl()
	if err != nil {
		return nil
	}
	return kubectl
}

// RESTClientConfig returns the configuration of an administrator.
//
// Deprecated: use AddUser and AuthenticatedUser.Config.
func (f *ControlPlane) RESTClientConfig() (*rest.Config, error) {
	u, err := f.administrator()
	if err != nil {
		return nil, err
	}
	return u.Config(), nil
}

// administrator returns the user of the deprecated methods.
func (f *ControlPlane) administrator() (*AuthenticatedUser, error) {
	if f.defaultUser == nil {
		if f.plane() == nil {
			return nil, errNotStarted
		}
		u, err := f.AddUser(User{Name: "default", Groups: []string{"system:masters"}}, nil)
		if err != nil {
			return nil, err
		}
		f.defaultUser = u
	}
	return f.defaultUser, nil
}

var errNotStarted = errors.New("the control plane is not started")

// AddUser returns a user with the credentials that APIServer.SecureServing.Authn makes: by default a
// client certificate. The settings of base, which may be nil, are kept. The control plane must be
// started, or Authn be set.
func (f *ControlPlane) AddUser(user User, base *rest.Config) (*AuthenticatedUser, error) {
	server := f.GetAPIServer()
	if server.Authn == nil {
		return nil, fmt.Errorf("unable to provision user %q: %w, and there is no Authn in its SecureServing", user.Name, errNotStarted)
	}
	if base == nil {
		base = &rest.Config{}
	}
	cfg, err := server.AddUser(user, base)
	if err != nil {
		return nil, err
	}
	return &AuthenticatedUser{shared: &authenticated{plane: f, cfg: cfg}}, nil
}

// AuthenticatedUser is a user of a control plane. Its methods panic if the control plane was never
// started.
type AuthenticatedUser struct{ shared *authenticated }

// authenticated is the state of an AuthenticatedUser, which may be copied.
type authenticated struct {
	plane *ControlPlane

	mu       sync.Mutex
	cfg      *rest.Config
	complete bool
	kubectl  *controlplane.KubeCtl
}

// Config returns the configuration of clients of the user. It is the same for each call.
func (u *AuthenticatedUser) Config() *rest.Config {
	s := u.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete {
		return s.cfg
	}
	server := s.plane.GetAPIServer()
	running := server.plane.Load()
	switch {
	case running == nil:
		panic("the API server has not yet been started, please do that before accessing connection details")
	case server.inMemory:
	default:
		s.cfg.CAData = server.CA
		s.cfg.Host = server.SecureServing.URL("https", "/").String()
		if !asPrograms.Load() {
			// What base wraps around the transport stays outside.
			s.cfg.WrapTransport = transport.Wrappers(running.WrapTransport, s.cfg.WrapTransport)
		}
	}
	s.complete = true
	return s.cfg
}

// KubeConfig returns a kubeconfig file of the user. It contains a private key. An environment in
// memory has none.
func (u AuthenticatedUser) KubeConfig() ([]byte, error) {
	cfg := u.Config()
	if u.shared.plane.APIServer.inMemory {
		return nil, errors.New("an environment in memory has no kubeconfig, because it has no socket")
	}
	return kubeConfigOf(cfg)
}

// Kubectl returns kubectl as the user. Its kubeconfig is a file in APIServer.CertDir.
func (u *AuthenticatedUser) Kubectl() (*controlplane.KubeCtl, error) {
	contents, err := u.KubeConfig()
	if err != nil {
		return nil, err
	}
	s := u.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kubectl != nil {
		return s.kubectl, nil
	}
	dir, err := s.plane.GetAPIServer().certDir()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "*.kubeconfig")
	if err == nil {
		_, err = file.Write(contents)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("unable to write a kubeconfig for kubectl to CertDir of the API server: %w", err)
	}
	s.kubectl = &controlplane.KubeCtl{Path: s.plane.KubectlPath, Opts: []string{"--kubeconfig=" + file.Name()}}
	return s.kubectl, nil
}

// kubeConfigOf returns a kubeconfig file with the host and the credentials of a configuration.
func kubeConfigOf(cfg *rest.Config) ([]byte, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("unable to write a kubeconfig: the host of the configuration is not a URL: %w", err)
	}
	const name = "envtest"
	kubeConfig := clientcmdapi.NewConfig()
	kubeConfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: cfg.APIPath}).String(),
		CertificateAuthority:     cfg.CAFile,
		CertificateAuthorityData: cfg.CAData,
		InsecureSkipTLSVerify:    cfg.Insecure,
		TLSServerName:            cfg.ServerName,
	}
	kubeConfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificate: cfg.CertFile, ClientCertificateData: cfg.CertData,
		ClientKey: cfg.KeyFile, ClientKeyData: cfg.KeyData,
		Token: cfg.BearerToken, TokenFile: cfg.BearerTokenFile,
		Username: cfg.Username, Password: cfg.Password,
		Exec: cfg.ExecProvider, AuthProvider: cfg.AuthProvider,
	}
	kubeConfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeConfig.CurrentContext = name
	return clientcmd.Write(*kubeConfig)
}
