package controlplane

import (
	"context"
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
)

// stopWithin bounds how long requests under way may hold up a stop.
const stopWithin = 2 * time.Second

// farewell is how long clients get to hang up by themselves.
const farewell = 20 * time.Millisecond

// httpsServer is the way in from outside the process.
type httpsServer struct {
	server     *http.Server
	listener   net.Listener
	requests   requests
	url        string
	kubeconfig []byte
	done       chan struct{}
}

func serveHTTPS(address string, ca *authority, handler http.Handler) (*httpsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, reason(err))
	}
	s := &httpsServer{listener: listener, url: "https://" + listener.Addr().String(), done: make(chan struct{})}
	host, _, _ := net.SplitHostPort(listener.Addr().String())
	cert, err := ca.server(host)
	if err == nil {
		s.kubeconfig, err = kubeconfig(s.url, ca)
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.requests.enter() {
				panic(http.ErrAbortHandler)
			}
			defer s.requests.leave()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
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

// stop lets the requests under way finish, and then hangs up on all clients. The farewell leaves their
// last answers the time to be sent; an idle HTTP/2 connection would hold up a shutdown for a second.
func (s *httpsServer) stop() error {
	s.listener.Close()
	drained := make(chan struct{})
	go func() {
		s.requests.drain()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(stopWithin):
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	<-s.done
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
