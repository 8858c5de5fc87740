package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/apiserver"
	kubeconfigfile "flyball.dev/internal/kubeconfig"
	"flyball.dev/storage"
)

const (
	// Timeouts of the shutdown: drainTimeout limits the wait for the handlers of requests in flight, flushTimeout for
	// connections that are sending a response, and closeTimeout for clients that have just got a response. If a
	// connection is closed while its client is sending, the client may lose the unread part of the response.
	drainTimeout = 2 * time.Second
	flushTimeout = time.Second
	closeTimeout = 100 * time.Millisecond

	// responseTimeout is how long a client may take to read a response, after the longest request.
	responseTimeout = 10 * time.Second

	// maxStreams is the maximum number of concurrent requests on a connection, as in kube-apiserver. Writing to a
	// stream becomes more expensive with the number of streams. Clients open another connection at the limit.
	maxStreams = 100
)

// httpsServer serves HTTPS for clients with certificates or tokens.
type httpsServer struct {
	server      *http.Server
	listener    net.Listener
	inFlight    waitgroup.SafeWaitGroup
	connections *connections
	url         string
	root        []byte // the certificate, in PEM, with which clients verify the server
	kubeconfig  []byte
	done        chan struct{} // closed when it no longer accepts connections
	err         error         // written before done is closed
}

// samePort returns the listener of a control plane that listens on a port of the system's choice. With a data directory
// or a snapshot, the port is the one of the start before if it is free, so that clients find the control plane again. On
// error, the returned listener is the one to close.
func (c *ControlPlane) samePort(o *Options, chosen net.Listener) (net.Listener, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if o.DataDir == "" && o.Snapshot == "" || err != nil || port != "0" {
		return chosen, nil
	}
	ctx := context.Background()
	record, err := c.storage.Get(ctx, addressKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return chosen, err
	}
	address := net.JoinHostPort(host, portOf(chosen))
	if err == nil {
		stored := string(record.Value())
		if stored == address {
			return chosen, nil
		}
		if before, port, err := net.SplitHostPort(stored); err == nil && before == host {
			if listener, err := listen(net.JoinHostPort(host, port)); err == nil {
				return listener, chosen.Close()
			}
		}
	}
	_, err = c.storage.Put(ctx, storage.Write{Key: addressKey, Value: []byte(address), If: storage.Any})
	return chosen, err
}

// portOf returns the port of a listener.
func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // an address always has a port
	return port
}

// closeListener closes a listener unless it is nil.
func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// listen listens on an address.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, reason(err))
	}
	return listener, nil
}

// growStack makes the stack of a goroutine large enough for most requests. Each request of HTTP/2 has a goroutine of its
// own. The runtime would copy the stack several times while it grows, with ever more frames: a create of a pod takes 0.34 ms
// of CPU time and not 0.36 (`go run -C bench ./server create`, medians of five turns).
//
//go:noinline
func growStack(i int) byte {
	var room [16 << 10]byte
	return room[i]
}

// serveHTTPS starts a server on a listener, and closes the listener when it stops. The serving certificate is given, or
// else signed by the authority, also for further hosts. The handler must refuse requests that arrive after the server
// has begun to stop.
func serveHTTPS(address string, listener net.Listener, ca *authority, given *tls.Certificate,
	handler http.Handler, hosts ...string) (*httpsServer, error) {
	s := &httpsServer{
		listener: listener, url: urlOf(address, listener.Addr()),
		connections: newConnections(), done: make(chan struct{}),
	}
	cert, root, err := servingCertificate(address, listener, ca, given, hosts...)
	if err != nil {
		return nil, err
	}
	s.root = root
	if s.kubeconfig, err = kubeconfig(s.url, ca, root); err != nil {
		return nil, err
	}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.inFlight.Add(1) == nil { // or else it is stopping, and the handler refuses the request
				defer s.inFlight.Done()
			}
			if r.ProtoMajor == 2 {
				growStack(0)
			}
			handler.ServeHTTP(w, r)
		}),
		// The handler removes the deadlines of long-running requests.
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       apiserver.RequestTimeout,
		WriteTimeout:      apiserver.RequestTimeout + responseTimeout,
		IdleTimeout:       2 * time.Minute,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnState:         s.connections.stateChanged,
		ErrorLog:          log.New(io.Discard, "", 0), // it would log connections that clients close
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequestClientCert, // verified by the authenticator, which responds with a Status
			MinVersion:   tls.VersionTLS12,
		},
	}
	go func() {
		defer close(s.done)
		s.err = s.server.ServeTLS(listener, "", "")
	}()
	return s, nil
}

// servingCertificate returns the certificate for a listener that clients also reach by the names of hosts, and the
// certificate in PEM that clients verify it with.
func servingCertificate(address string, listener net.Listener, ca *authority,
	given *tls.Certificate, hosts ...string) (_ tls.Certificate, root []byte, err error) {
	if given != nil {
		return *given, rootOf(given), nil
	}
	requested, _, _ := net.SplitHostPort(address)
	actual, _, _ := net.SplitHostPort(listener.Addr().String())
	signed, err := ca.server(append([]string{requested, actual}, hosts...)...)
	return signed, ca.pem(), err
}

// rootOf returns the last certificate of a chain in PEM.
func rootOf(c *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[len(c.Certificate)-1]})
}

// urlOf returns the URL of a listener for clients on this host. It replaces an unspecified address by loopback, because
// clients cannot connect to an unspecified address.
func urlOf(address string, listening net.Addr) string {
	host, port, _ := net.SplitHostPort(listening.String())
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
		if requested, _, _ := net.SplitHostPort(address); requested == "::" {
			host = "::1"
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

// stop waits until the requests in flight have got their responses, and then closes all connections.
func (s *httpsServer) stop() error {
	s.listener.Close()
	closed := s.connections.activeClosed()
	drained := make(chan struct{})
	go func() {
		s.inFlight.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		s.connections.wait(flushTimeout, s.connections.idle)
		s.connections.wait(closeTimeout, closed)
	case <-time.After(drainTimeout):
	}
	err := s.server.Close()
	<-s.done
	<-drained
	if errors.Is(err, net.ErrClosed) {
		return nil // the listener, which is closed already
	}
	return err
}

// kubeconfig returns the content of an administrator's kubeconfig. Clients verify the server's certificate with root.
func kubeconfig(url string, ca *authority, root []byte) ([]byte, error) {
	admin, err := ca.administrator()
	if err != nil {
		return nil, err
	}
	const name = "flyball"
	config := clientcmdapi.NewConfig()
	cluster := &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: root}
	kubeconfigfile.NewOrigin().Mark(cluster)
	config.Clusters[name] = cluster
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.cert, ClientKeyData: admin.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// reason returns the innermost error, without the failed operation.
func reason(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
