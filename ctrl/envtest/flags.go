package envtest

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/admission"
	plane "flyball.dev/controlplane"
)

// DefaultKubeAPIServerFlags are flags for APIServer.Args, to which others may be appended.
//
// Deprecated: use APIServer.Configure.
var DefaultKubeAPIServerFlags = []string{
	"--advertise-address=127.0.0.1",
	"--etcd-servers={{ if .EtcdURL }}{{ .EtcdURL.String }}{{ end }}",
	"--cert-dir={{ .CertDir }}",
	"--secure-port={{ if .SecurePort }}{{ .SecurePort }}{{ end }}",
	"--disable-admission-plugins=ServiceAccount",
	"--service-cluster-ip-range=10.0.0.0/24",
	"--allow-privileged=true",
}

// flags are the values of the API server's flags, by name.
type flags map[string][]string

// flags returns those of Configure and of Args, with the defaults.
func (s *APIServer) flags() (flags, error) {
	port := s.Port
	if s.SecurePort != 0 {
		port = strconv.Itoa(s.SecurePort)
	}
	s.ownPort = port == ""
	all := flags{
		"authorization-mode":        {"RBAC"},
		"bind-address":              {cmp.Or(s.Address, "127.0.0.1")},
		"disable-admission-plugins": {admission.ServiceAccount},
		"secure-port":               {cmp.Or(port, "0")},
	}
	defaults, arguments := all, s.Configure()
	if len(s.Args) > 0 {
		// They are complete but for these, as in controller-runtime.
		defaults = flags{"authorization-mode": all["authorization-mode"], "bind-address": all["bind-address"],
			"secure-port": all["secure-port"]}
		var err error
		if arguments, err = s.withTemplates(arguments); err != nil {
			return nil, err
		}
	}
	result := flags{}
	for _, flag := range arguments.AsStrings(defaults) {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		result[name] = append(result[name], value)
	}
	for _, name := range []string{"bind-address", "secure-port", "authorization-mode"} {
		if result.last(name) == "" {
			result[name] = all[name]
		}
	}
	return result, nil
}

// withTemplates returns the arguments with those of Args added.
func (s *APIServer) withTemplates(arguments *Arguments) (*Arguments, error) {
	merged := EmptyArguments()
	for name, value := range arguments.values {
		merged.SetRaw(name, value)
	}
	for _, text := range s.Args {
		t, err := template.New("Args").Parse(text)
		var flag bytes.Buffer
		if err == nil {
			err = t.Execute(&flag, s)
		}
		if err != nil {
			return nil, fmt.Errorf("Args of the API server has an invalid template %q: %w", text, err)
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(flag.String(), "--"), "=")
		if ok && strings.HasPrefix(flag.String(), "--") {
			merged.AppendNoDefaults(name, value)
		}
	}
	return merged, nil
}

// last returns the last value of a flag.
func (f flags) last(name string) string {
	if len(f[name]) == 0 {
		return ""
	}
	return f[name][len(f[name])-1]
}

// list returns the values of a flag that takes several, separated by commas.
func (f flags) list(name string) (all []string) {
	for _, values := range f[name] {
		for value := range strings.SplitSeq(values, ",") {
			if value = strings.TrimSpace(value); value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// apply sets the options that correspond to the flags.
func (f flags) apply(o *plane.Options) (err error) {
	modes := f.list("authorization-mode")
	switch {
	case slices.Contains(modes, "AlwaysAllow"):
		o.AuthorizationMode = "AlwaysAllow"
	case slices.Contains(modes, "RBAC"):
		o.AuthorizationMode = strings.Join(modes, ",")
	default:
		return fmt.Errorf("the flag authorization-mode of the API server is %s: RBAC, Node,RBAC and AlwaysAllow are supported",
			strings.Join(modes, ","))
	}
	o.Admission.Enable = f.list("enable-admission-plugins")
	o.Admission.Disable = f.list("disable-admission-plugins")
	if !slices.Contains(o.Admission.Disable, admission.ServiceAccount) && !slices.Contains(o.Admission.Enable, admission.ServiceAccount) {
		// It is enabled by default, also if its controller does not run.
		o.Admission.Enable = append(o.Admission.Enable, admission.ServiceAccount)
	}
	o.Admission.Enable = slices.DeleteFunc(o.Admission.Enable, func(name string) bool {
		return slices.Contains(o.Admission.Disable, name)
	})
	if o.MaxRequestsInFlight, err = f.number("max-requests-inflight"); err != nil {
		return err
	}
	if o.MaxMutatingRequestsInFlight, err = f.number("max-mutating-requests-inflight"); err != nil {
		return err
	}
	if file := f.last("token-auth-file"); file != "" {
		o.Tokens, err = readTokens(file)
	}
	return err
}

// number returns the value of a flag, in which 0 means no limit, or 0 if it is not set.
func (f flags) number(name string) (int, error) {
	value := f.last(name)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("the flag %s of the API server is not a number: %w", name, err)
	}
	if n == 0 {
		return -1, nil
	}
	return n, nil
}

// readTokens reads a file with a line for each token: the token, the name of its user, the user's
// UID, and optionally a list of groups.
func readTokens(file string) (map[string]*user.DefaultInfo, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the flag token-auth-file of the API server: %w", err)
	}
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("the flag token-auth-file of the API server: %s: %w", file, err)
	}
	tokens := map[string]*user.DefaultInfo{}
	for i, record := range records {
		if len(record) < 3 || record[0] == "" {
			return nil, fmt.Errorf("the flag token-auth-file of the API server: %s: record %d must have a token, a user and a UID", file, i+1)
		}
		u := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			u.Groups = strings.Split(record[3], ",")
		}
		tokens[record[0]] = u
	}
	return tokens, nil
}
