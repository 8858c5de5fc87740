package lab

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/proxy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/internal/selfsigned"
)

// A gateway is the HTTPS server of a world for programs. It passes the requests of each program to its process, and
// tells the programs apart by their tokens.
type gateway struct {
	world    *world
	listener net.Listener
	server   *http.Server
	ca       []byte   // in PEM
	url      *url.URL // of the control plane, for clients in this process

	mu        sync.Mutex
	processes map[string]*process // by token
}

// newGateway starts a gateway on a free port of the loopback interface.
func newGateway(w *world) (*gateway, error) {
	pair, err := selfsigned.New("flyball lab", 24*time.Hour, []string{"127.0.0.1", "localhost", "kubernetes.default.svc"})
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(w.plane.Config().Host)
	if err != nil {
		return nil, err
	}
	g := &gateway{world: w, ca: pair.CAPEM(), url: target, processes: map[string]*process{}}
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	g.server = &http.Server{Handler: g, TLSConfig: &tls.Config{Certificates: []tls.Certificate{*pair.Certificate}},
		ErrorLog: log.New(io.Discard, "", 0)} // a program that was killed breaks its connections
	go g.server.ServeTLS(g.listener, "", "")
	return g, nil
}

func (g *gateway) close() { g.server.Close() }

// admit returns the access of a new process.
func (g *gateway) admit(p *process) (Access, error) {
	token := rand.Text()
	g.mu.Lock()
	g.processes[token] = p
	g.mu.Unlock()
	namespace := metav1.NamespaceDefault
	if account, ok := strings.CutPrefix(g.world.program.User, "system:serviceaccount:"); ok {
		namespace, _, _ = strings.Cut(account, ":")
	}
	return Access{Namespace: namespace, Config: &rest.Config{Host: "https://" + g.listener.Addr().String(), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: g.ca}}}, nil
}

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	p := g.processes[token]
	g.mu.Unlock()
	if p == nil {
		http.Error(out, "lab: unknown token", http.StatusUnauthorized)
		return
	}
	r.Header.Del("Authorization")
	r.Header.Del("Accept-Encoding") // the process reads the responses
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(g.url)
		},
		Transport:     p,
		FlushInterval: -1,
		ErrorHandler: func(out http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, errCrashed) || errors.Is(err, syscall.ECONNRESET) {
				panic(http.ErrAbortHandler) // the connection breaks, as it does when a server goes away
			}
			http.Error(out, "lab: "+err.Error(), http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	reverse.ServeHTTP(out, r)
}

// upgradeTransport returns a transport that can upgrade connections to a control plane in the process.
func upgradeTransport(config *rest.Config) (http.RoundTripper, error) {
	via, err := config.Proxy(nil)
	if err != nil {
		return nil, err
	}
	dialer, err := proxy.FromURL(via, nil)
	if err != nil {
		return nil, err
	}
	return &http.Transport{DialContext: dialer.(proxy.ContextDialer).DialContext, DisableKeepAlives: true}, nil
}
