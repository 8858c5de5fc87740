package kubeflags

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/controlplane"
)

// Set reads the flags that [Add] has added.
type Set struct{ *pflag.FlagSet }

// Text returns the value of a flag.
func (f Set) Text(name string) string { return f.Lookup(name).Value.String() }

// Texts returns the values of a flag with several values.
func (f Set) Texts(name string) []string {
	if values, ok := f.Lookup(name).Value.(pflag.SliceValue); ok {
		return values.GetSlice()
	}
	return nil
}

// Number returns the value of an int flag.
func (f Set) Number(name string) int {
	n, _ := strconv.Atoi(f.Text(name)) // it is a number
	return n
}

// Options returns the options of the control plane that the flags set. Without a flag, an option has the control
// plane's default: for instance the serving certificate, and the keys of service account tokens. Options returns an
// error for a value, or a combination of flags, that kube-apiserver rejects, for an unreadable file, and for an
// authorization mode that is not implemented.
func (f Set) Options() (controlplane.Options, error) {
	if err := f.validate(); err != nil {
		return controlplane.Options{}, err
	}
	o := controlplane.Options{
		Listen:                      net.JoinHostPort(f.Text("bind-address"), f.Text("secure-port")),
		WithoutAnonymous:            f.Text("anonymous-auth") == "false",
		AuthorizationMode:           f.authorizationMode(),
		MaxRequestsInFlight:         limit(f.Number("max-requests-inflight")),
		MaxMutatingRequestsInFlight: limit(f.Number("max-mutating-requests-inflight")),
	}
	o.Admission.Enable = f.Texts("enable-admission-plugins")
	o.Admission.Disable = f.Texts("disable-admission-plugins")
	o.Admission.ConfigFile = f.Text("admission-control-config-file")
	o.Audit.PolicyFile, o.Audit.LogPath = f.Text("audit-policy-file"), f.Text("audit-log-path")
	o.Audit.Format, o.Audit.MaxSize = f.Text("audit-log-format"), f.Number("audit-log-maxsize")
	o.Audit.MaxAge, o.Audit.MaxBackups = f.Number("audit-log-maxage"), f.Number("audit-log-maxbackup")
	for _, set := range []func(*controlplane.Options) error{
		f.setNetwork, f.setServingCertificate, f.setClients, f.setServiceAccounts,
	} {
		if err := set(&o); err != nil {
			return controlplane.Options{}, err
		}
	}
	return o, nil
}

// limit returns the limit of a control plane for a limit of kube-apiserver, where zero means no limit.
func limit(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// authorizationModes maps the modes of kube-apiserver to whether they are implemented.
var authorizationModes = map[string]bool{
	"AlwaysAllow": true, "RBAC": true, "Node": true, "AlwaysDeny": false, "ABAC": false, "Webhook": false}

// validate checks the combination of flags in the same way as kube-apiserver.
func (f Set) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []string{"max-requests-inflight", "max-mutating-requests-inflight"} {
		if f.Number(name) < 0 {
			add("--%s can not be negative value", name)
		}
	}
	for _, issuer := range f.Texts("service-account-issuer") {
		if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			add("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		}
	}
	modes := f.Texts("authorization-mode")
	for i, mode := range modes {
		switch implemented, ok := authorizationModes[mode]; {
		case !ok:
			add("authorization-mode %q is not a valid mode", mode)
		case !implemented:
			add("authorization-mode %q is not implemented", mode)
		case slices.Contains(modes[:i], mode):
			add("authorization-mode %q has mode specified more than once", modes)
		}
	}
	enabled, disabled := f.Texts("enable-admission-plugins"), f.Texts("disable-admission-plugins")
	if both := slices.DeleteFunc(slices.Clone(enabled), func(p string) bool { return !slices.Contains(disabled, p) }); len(both) > 0 {
		add("%v in enable-admission-plugins and disable-admission-plugins overlapped", both)
	}
	for _, pair := range [][2]string{{"tls-cert-file", "tls-private-key-file"}, {"tls-private-key-file", "tls-cert-file"}} {
		if f.Text(pair[0]) != "" && f.Text(pair[1]) == "" {
			add("--%s must be set with --%s", pair[1], pair[0])
		}
	}
	return errors.Join(errs...)
}

// authorizationMode returns the comma-separated modes. The default is kube-apiserver's.
func (f Set) authorizationMode() string {
	if modes := f.Texts("authorization-mode"); len(modes) > 0 {
		return strings.Join(modes, ",")
	}
	return "AlwaysAllow"
}

// setNetwork sets the range of cluster IPs and the advertised address.
func (f Set) setNetwork(o *controlplane.Options) (err error) {
	const name = "service-cluster-ip-range"
	first, more, _ := strings.Cut(f.Text(name), ",")
	if first == "" {
		first = "10.0.0.0/24"
	}
	if more != "" {
		klog.Warningf("The second range %s of --%s has no effect", more, name)
	}
	if o.ServiceNetwork, err = netip.ParsePrefix(first); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	if address := f.Text("advertise-address"); f.Changed("advertise-address") {
		if o.AdvertiseAddress, err = netip.ParseAddr(address); err != nil {
			return fmt.Errorf("--advertise-address: %w", err)
		}
	}
	return nil
}

// setServingCertificate reads the serving certificate, if a flag names one.
func (f Set) setServingCertificate(o *controlplane.Options) error {
	certificate, key := f.Text("tls-cert-file"), f.Text("tls-private-key-file")
	if certificate == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("--tls-cert-file %s, --tls-private-key-file %s: %w", certificate, key, err)
	}
	o.ServingCertificate = &pair
	return nil
}

// setClients configures the authentication of clients, except by service account tokens.
func (f Set) setClients(o *controlplane.Options) (err error) {
	if file := f.Text("client-ca-file"); file != "" {
		if o.ClientCA, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("--client-ca-file: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(o.ClientCA) {
			return fmt.Errorf("--client-ca-file %s has no certificate in PEM", file)
		}
	}
	if file := f.Text("token-auth-file"); file != "" {
		if o.Tokens, err = readTokens(file); err != nil {
			return fmt.Errorf("--token-auth-file %s: %w", file, err)
		}
	}
	file := f.Text("requestheader-client-ca-file")
	if file == "" {
		return nil
	}
	authorities, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	h := &authn.RequestHeader{
		ClientCA:            x509.NewCertPool(),
		AllowedNames:        f.Texts("requestheader-allowed-names"),
		UsernameHeaders:     f.Texts("requestheader-username-headers"),
		UIDHeaders:          f.Texts("requestheader-uid-headers"),
		GroupHeaders:        f.Texts("requestheader-group-headers"),
		ExtraHeaderPrefixes: f.Texts("requestheader-extra-headers-prefix"),
	}
	if !h.ClientCA.AppendCertsFromPEM(authorities) {
		return fmt.Errorf("--requestheader-client-ca-file %s has no certificate in PEM", file)
	}
	o.RequestHeader = h
	return nil
}

// readTokens reads a file of bearer tokens, with the comma-separated columns token, user, uid and optionally groups.
// Errors contain the line number, but not the content of the line.
func readTokens(file string) (map[string]*user.DefaultInfo, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	tokens := map[string]*user.DefaultInfo{}
	reader := csv.NewReader(in)
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 || record[0] == "" {
			return nil, fmt.Errorf("line %d: expected token, user and uid", line)
		}
		u := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 && record[3] != "" {
			u.Groups = strings.Split(record[3], ",")
		}
		tokens[record[0]] = u
	}
}

// setServiceAccounts sets the keys and the names of service account tokens.
func (f Set) setServiceAccounts(o *controlplane.Options) error {
	var keys []crypto.PublicKey
	for _, file := range f.Texts("service-account-key-file") {
		more, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return fmt.Errorf("--service-account-key-file %s: %w", file, err)
		}
		for _, key := range more {
			keys = append(keys, key)
		}
	}
	o.ServiceAccounts = serviceaccount.Options{
		Issuers: f.Texts("service-account-issuer"), Audiences: f.Texts("api-audiences"), Keys: keys}
	file := f.Text("service-account-signing-key-file")
	if file == "" {
		return nil
	}
	private, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return fmt.Errorf("--service-account-signing-key-file %s: %w", file, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return fmt.Errorf("--service-account-signing-key-file %s: a key of type %T cannot sign", file, private)
	}
	o.ServiceAccounts.SigningKey = signer
	return nil
}
