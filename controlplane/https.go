package controlplane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/apiserver"
)

const (
	// drainWithin bounds how long the handlers of requests under way may hold up a stop, flushWithin how
	// long the connections that have an answer to send, and hangUpWithin how long the clients that have
	// just got an answer. One that sends something when it is hung up on may lose what it has not read.
	drainWithin  = 2 * time.Second
	flushWithin  = time.Second
	hangUpWithin = 100 * time.Millisecond

	// answerWithin is how long a client may take to read an answer, from the end of the longest request.
	answerWithin = 10 * time.Second
)

// httpsServer is the way in from outside the process.
type httpsServer struct {
	server      *http.Server
	listener    net.Listener
	requests    requests
	connections *connections
	url         string
	kubeconfig  []byte
	done        chan struct{}
}

func listenHTTPS(address string, ca *authority, handler http.Handler) (*httpsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, reason(err))
	}
	s, err := serveHTTPS(address, listener, ca, handler)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return s, nil
}

// serveHTTPS serves until it is stopped. The handler must refuse requests by itself once that begins.
func serveHTTPS(address string, listener net.Listener, ca *authority, handler http.Handler) (*httpsServer, error) {
	s := &httpsServer{
		listener: listener, url: urlOf(address, listener.Addr()),
		connections: newConnections(), done: make(chan struct{}),
	}
	asked, _, _ := net.SplitHostPort(address)
	found, _, _ := net.SplitHostPort(listener.Addr().String())
	cert, err := ca.server(asked, found)
	if err != nil {
		return nil, err
	}
	if s.kubeconfig, err = kubeconfig(s.url, ca); err != nil {
		return nil, err
	}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.requests.enter() {
				defer s.requests.leave()
			}
			handler.ServeHTTP(w, r)
		}),
		// The deadlines are those of requests that have an end; the handler lifts them from others.
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       apiserver.RequestTimeout,
		WriteTimeout:      apiserver.RequestTimeout + answerWithin,
		IdleTimeout:       2 * time.Minute,
		ConnState:         s.connections.follow,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that hang up are no concern of the user's
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequestClientCert, // verified by the authenticator, which can answer properly
			MinVersion:   tls.VersionTLS12,
		},
	}
	go func() {
		defer close(s.done)
		_ = s.server.ServeTLS(listener, "", "") // always ends with ErrServerClosed
	}()
	return s, nil
}

// urlOf is where clients on this machine reach a listener: an address that stands for all of them is no
// address to connect to.
func urlOf(address string, listening net.Addr) string {
	host, port, _ := net.SplitHostPort(listening.String())
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
		if asked, _, _ := net.SplitHostPort(address); asked == "::" {
			host = "::1"
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

// stop waits for the requests under way and their answers to be sent, and then hangs up on all clients.
func (s *httpsServer) stop() error {
	s.listener.Close()
	answered := s.connections.answered()
	drained := make(chan struct{})
	go func() {
		s.requests.drain()
		close(drained)
	}()
	select {
	case <-drained:
		s.connections.wait(flushWithin, s.connections.idle)
		s.connections.wait(hangUpWithin, answered)
	case <-time.After(drainWithin):
	}
	err := s.server.Close()
	<-s.done
	<-drained
	if errors.Is(err, net.ErrClosed) {
		return nil // the listener, which is closed already
	}
	return err
}

// kubeconfig is the file with which an administrator reaches the server.
func kubeconfig(url string, ca *authority) ([]byte, error) {
	admin, err := ca.administrator()
	if err != nil {
		return nil, err
	}
	const name = "flyball"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca.pem()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.cert, ClientKeyData: admin.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// reason is the innermost error, which says what happened without the operation around it.
func reason(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
