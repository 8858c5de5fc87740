package webhook

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"flyball.dev/ctrl/internal/aliasvar"
)

// DefaultPort is the port of servers without a port in their options.
var DefaultPort = 9443

var defaultPort = aliasvar.Var[int]{Original: &DefaultPort}

// AliasDefaultPort makes servers use the value at alias instead of [DefaultPort] once it has been
// changed. It is an addition of Flyball, for packages that export the variable under another import
// path, and is called when they are initialized.
func AliasDefaultPort(alias *int) { defaultPort.SetAlias(alias) }

// Options are the options of a server. The zero value serves on all addresses at [DefaultPort] with
// the certificate in the default directory.
type Options struct {
	// Host is the name or address to listen on. All addresses if empty.
	Host string

	// Port is the port to listen on, [DefaultPort] if 0. A negative port disables the server.
	Port int

	// CertDir is the directory of the certificate and its key, by default
	// k8s-webhook-server/serving-certs in the directory for temporary files. Most operators set it to
	// where a Secret is mounted.
	CertDir string

	// CertName is the name of the file with the certificate, tls.crt by default. It is not read if a
	// function in TLSOpts sets GetCertificate.
	CertName string

	// KeyName is the name of the file with the key, tls.key by default. It is not read if a function
	// in TLSOpts sets GetCertificate.
	KeyName string

	// ClientCAName is the name of a file in CertDir with the CA certificates of clients. If it is set,
	// clients must have a certificate that one of them has signed.
	ClientCAName string

	// TLSOpts change the TLS configuration, for example its versions, its GetCertificate, or its
	// NextProtos, by default for HTTP/2: []string{"http/1.1"} disables it.
	TLSOpts []func(*tls.Config)

	// WebhookMux routes the requests. A new one by default.
	WebhookMux *http.ServeMux

	// Listener is served instead of Host and Port. The server closes it. If it has the method DialContext
	// of net.Dialer, the server connects to itself with that. This option is Flyball's own.
	Listener net.Listener

	// SelfSigned makes the server sign a certificate for itself, in memory, if the files of its
	// certificate do not exist. It is meant for development. This option is Flyball's own.
	SelfSigned *SelfSigned

	// Install makes the manager of the server install its webhooks, before any cache starts. It
	// implies SelfSigned. This option is Flyball's own.
	Install *Install
}

// SelfSigned are the options of a certificate that the server signs for itself. It is valid for
// localhost, its addresses 127.0.0.1 and ::1, and the hosts in Options.Host and in Install. This
// type is Flyball's own.
type SelfSigned struct {
	// Hosts are more names and addresses that the certificate is valid for.
	Hosts []string
}

// setDefaults sets the options that have a default and are not set.
func (o *Options) setDefaults() {
	if o.WebhookMux == nil {
		o.WebhookMux = http.NewServeMux()
	}
	if o.Port == 0 {
		o.Port = defaultPort.Get()
	}
	if o.CertDir == "" {
		o.CertDir = filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
	}
	if o.CertName == "" {
		o.CertName = "tls.crt"
	}
	if o.KeyName == "" {
		o.KeyName = "tls.key"
	}
}
