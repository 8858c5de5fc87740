package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// connectTimeout bounds the connection to one endpoint.
const connectTimeout = 2 * time.Second

// checkEndpoints returns an error unless all endpoints are URLs of servers.
func checkEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return errors.New("etcd: there are no endpoints")
	}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("the etcd endpoint %q is not a URL such as https://10.0.0.1:2379", endpoint)
		}
	}
	return nil
}

// reach returns an error, of one line, if no endpoint is a server that answers. The error of the client would say only that
// the time has run out.
func reach(ctx context.Context, o Options) error {
	var problems []string
	for _, endpoint := range o.Endpoints {
		err := connect(ctx, endpoint, o.TLS)
		if err == nil {
			return nil
		}
		problems = append(problems, fmt.Sprintf("%s: %v", endpoint, err))
	}
	return fmt.Errorf("etcd cannot be reached: %s", strings.Join(problems, "; "))
}

// connect connects to an endpoint, and begins to speak HTTP/2, as gRPC does. A server that requires the certificate of a
// client says so after the handshake.
func connect(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var conn net.Conn
	if u.Scheme == "https" {
		h2 := &tls.Config{}
		if config != nil {
			h2 = config.Clone()
		}
		h2.NextProtos = []string{"h2"}
		conn, err = (&tls.Dialer{Config: h2}).DialContext(ctx, "tcp", u.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	return exchangeSettings(conn)
}

// The beginning of HTTP/2: the preface of the client, and the header of a frame of settings, which both sides send first.
const (
	preface         = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings   = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	frameTypeOffset = 3
)

// exchangeSettings sends and receives the first frames of HTTP/2.
func exchangeSettings(conn net.Conn) error {
	_, writeErr := conn.Write([]byte(preface + emptySettings))
	answer := make([]byte, len(emptySettings))
	switch _, err := io.ReadFull(conn, answer); {
	case err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && answer[frameTypeOffset] != emptySettings[frameTypeOffset]:
		return errors.New("the server does not speak gRPC; perhaps it expects https instead of http")
	case err != nil:
		return err
	}
	return writeErr
}
