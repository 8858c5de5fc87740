package main

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
	"flyball.dev/controllers"
	"flyball.dev/controlplane"
)

// controllersVariable selects controllers, as the flag --controllers of kube-controller-manager.
const controllersVariable = "FLYBALL_CONTROLLERS"

// alwaysEnabled are admission plugins that a control plane disables unless their controllers run.
// kube-apiserver does not know which controllers run.
var alwaysEnabled = []string{"ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition"}

// serverFlags reads flags that exist.
type serverFlags struct{ *pflag.FlagSet }

func (f serverFlags) text(name string) string { return f.Lookup(name).Value.String() }

func (f serverFlags) texts(name string) []string {
	if values, ok := f.Lookup(name).Value.(pflag.SliceValue); ok {
		return values.GetSlice()
	}
	return nil
}

func (f serverFlags) number(name string) int {
	n, _ := strconv.Atoi(f.text(name)) // it is a number
	return n
}

// serverOptions returns the options of the control plane for flags of kube-apiserver.
func serverOptions(fs *pflag.FlagSet) (controlplane.Options, error) {
	f := serverFlags{fs}
	if err := f.validate(); err != nil {
		return controlplane.Options{}, err
	}
	o := controlplane.Options{
		Listen:                      net.JoinHostPort(f.text("bind-address"), f.text("secure-port")),
		WithoutAnonymous:            f.text("anonymous-auth") == "false",
		AuthorizationMode:           f.authorizationMode(),
		MaxRequestsInFlight:         limit(f.number("max-requests-inflight")),
		MaxMutatingRequestsInFlight: limit(f.number("max-mutating-requests-inflight")),
		DeletionDelay:               deletionDelay,
	}
	o.Admission.Enable = append(f.texts("enable-admission-plugins"), alwaysEnabled...)
	o.Admission.Disable = f.texts("disable-admission-plugins")
	o.Admission.ConfigFile = f.text("admission-control-config-file")
	o.Audit.PolicyFile, o.Audit.LogPath = f.text("audit-policy-file"), f.text("audit-log-path")
	o.Audit.Format, o.Audit.MaxSize = f.text("audit-log-format"), f.number("audit-log-maxsize")
	o.Audit.MaxAge, o.Audit.MaxBackups = f.number("audit-log-maxage"), f.number("audit-log-maxbackup")
	for _, set := range []func(*controlplane.Options) error{
		f.setNetwork, f.setServingCertificate, f.setClients, f.setServiceAccounts, setControllers,
	} {
		if err := set(&o); err != nil {
			return controlplane.Options{}, err
		}
	}
	return o, nil
}

// limit returns the limit of a control plane for one of kube-apiserver, whose zero is none.
func limit(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// authorizationModes are those of kube-apiserver, with whether there is an implementation.
var authorizationModes = map[string]bool{
	"AlwaysAllow": true, "RBAC": true, "Node": true, "AlwaysDeny": false, "ABAC": false, "Webhook": false}

// validate checks the combination of flags as kube-apiserver does.
func (f serverFlags) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(f.texts("etcd-servers")) == 0 {
		add("--etcd-servers must be specified")
	}
	if port := f.number("secure-port"); port < 1 || port > 65535 {
		add("--secure-port %d must be between 1 and 65535, inclusive. It cannot be turned off with 0", port)
	}
	for _, name := range []string{"max-requests-inflight", "max-mutating-requests-inflight"} {
		if f.number(name) < 0 {
			add("--%s can not be negative value", name)
		}
	}
	if len(f.texts("service-account-issuer")) == 0 {
		add("service-account-issuer is a required flag")
	}
	for _, issuer := range f.texts("service-account-issuer") {
		if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			add("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		}
	}
	if len(f.texts("service-account-key-file")) == 0 {
		add("either `--service-account-key-file` or `--service-account-signing-endpoint` must be set")
	}
	if f.text("service-account-signing-key-file") == "" || len(f.texts("service-account-issuer")) == 0 {
		add("--service-account-signing-key-file and --service-account-issuer are required flags")
	}
	modes := f.texts("authorization-mode")
	for i, mode := range modes {
		switch implemented, ok := authorizationModes[mode]; {
		case !ok:
			add("authorization-mode %q is not a valid mode", mode)
		case !implemented:
			add("authorization-mode %q is not implemented by this stand-in", mode)
		case slices.Contains(modes[:i], mode):
			add("authorization-mode %q has mode specified more than once", modes)
		}
	}
	enabled, disabled := f.texts("enable-admission-plugins"), f.texts("disable-admission-plugins")
	if both := slices.DeleteFunc(slices.Clone(enabled), func(p string) bool { return !slices.Contains(disabled, p) }); len(both) > 0 {
		add("%v in enable-admission-plugins and disable-admission-plugins overlapped", both)
	}
	for _, pair := range [][2]string{{"tls-cert-file", "tls-private-key-file"}, {"tls-private-key-file", "tls-cert-file"}} {
		if f.text(pair[0]) != "" && f.text(pair[1]) == "" {
			add("--%s must be set with --%s", pair[1], pair[0])
		}
	}
	return errors.Join(errs...)
}

// authorizationMode returns the modes, separated by commas. The default is kube-apiserver's.
func (f serverFlags) authorizationMode() string {
	if modes := f.texts("authorization-mode"); len(modes) > 0 {
		return strings.Join(modes, ",")
	}
	return "AlwaysAllow"
}

// setNetwork sets the range of cluster IPs and the advertised address.
func (f serverFlags) setNetwork(o *controlplane.Options) (err error) {
	const name = "service-cluster-ip-range"
	first, more, _ := strings.Cut(f.text(name), ",")
	if first == "" {
		first = "10.0.0.0/24"
	}
	if more != "" {
		klog.Warningf("The second range %s of --%s has no effect", more, name)
	}
	if o.ServiceNetwork, err = netip.ParsePrefix(first); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	if address := f.text("advertise-address"); f.Changed("advertise-address") {
		if o.AdvertiseAddress, err = netip.ParseAddr(address); err != nil {
			return fmt.Errorf("--advertise-address: %w", err)
		}
	}
	return nil
}

// setServingCertificate reads the serving certificate, or creates one in --cert-dir.
func (f serverFlags) setServingCertificate(o *controlplane.Options) error {
	certificate, key := f.text("tls-cert-file"), f.text("tls-private-key-file")
	source := fmt.Sprintf("--tls-cert-file %s, --tls-private-key-file %s", certificate, key)
	if certificate == "" {
		host := f.text("bind-address")
		var err error
		if certificate, key, err = ensureServingCertificate(f.text("cert-dir"), host); err != nil {
			return fmt.Errorf("error creating self-signed certificates: %w", err)
		}
		source = fmt.Sprintf("--cert-dir %s", f.text("cert-dir"))
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	o.ServingCertificate = &pair
	return nil
}

// setClients sets how clients are authenticated other than by service account tokens.
func (f serverFlags) setClients(o *controlplane.Options) (err error) {
	if file := f.text("client-ca-file"); file != "" {
		if o.ClientCA, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("--client-ca-file: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(o.ClientCA) {
			return fmt.Errorf("--client-ca-file %s has no certificate in PEM", file)
		}
	}
	if file := f.text("token-auth-file"); file != "" {
		if o.Tokens, err = readTokens(file); err != nil {
			return fmt.Errorf("--token-auth-file %s: %w", file, err)
		}
	}
	file := f.text("requestheader-client-ca-file")
	if file == "" {
		return nil
	}
	authorities, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	h := &authn.RequestHeader{
		ClientCA:            x509.NewCertPool(),
		AllowedNames:        f.texts("requestheader-allowed-names"),
		UsernameHeaders:     f.texts("requestheader-username-headers"),
		UIDHeaders:          f.texts("requestheader-uid-headers"),
		GroupHeaders:        f.texts("requestheader-group-headers"),
		ExtraHeaderPrefixes: f.texts("requestheader-extra-headers-prefix"),
	}
	if !h.ClientCA.AppendCertsFromPEM(authorities) {
		return fmt.Errorf("--requestheader-client-ca-file %s has no certificate in PEM", file)
	}
	o.RequestHeader = h
	return nil
}

// readTokens reads a file of bearer tokens: token,user,uid and optionally groups, separated by
// commas. Errors have the number of the line and nothing of its content.
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
func (f serverFlags) setServiceAccounts(o *controlplane.Options) error {
	var keys []crypto.PublicKey
	for _, file := range f.texts("service-account-key-file") {
		more, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return fmt.Errorf("--service-account-key-file %s: %w", file, err)
		}
		for _, key := range more {
			keys = append(keys, key)
		}
	}
	file := f.text("service-account-signing-key-file")
	private, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return fmt.Errorf("--service-account-signing-key-file %s: %w", file, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return fmt.Errorf("--service-account-signing-key-file %s: a key of type %T cannot sign", file, private)
	}
	o.ServiceAccounts = serviceaccount.Options{
		Issuers: f.texts("service-account-issuer"), Audiences: f.texts("api-audiences"), SigningKey: signer, Keys: keys}
	return nil
}

// setControllers selects the controllers of $FLYBALL_CONTROLLERS, by default none.
func setControllers(o *controlplane.Options) error {
	without, err := controllers.Unselected(strings.FieldsFunc(os.Getenv(controllersVariable), func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return fmt.Errorf("%s: %w", controllersVariable, err)
	}
	o.Controllers.Without = without
	o.WithoutControllers = len(without) == len(controllers.Names())
	return nil
}
