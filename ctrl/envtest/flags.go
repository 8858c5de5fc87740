package envtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/pflag"

	"flyball.dev/apiserver/admission"
	plane "flyball.dev/controlplane"
	"flyball.dev/controlplane/kubeflags"
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

// flagOptions returns the options of the control plane that the flags of Configure and of Args set,
// with the defaults.
func (s *APIServer) flagOptions() (plane.Options, error) {
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	kubeflags.Add(fs)
	arguments, err := s.arguments()
	if err != nil {
		return plane.Options{}, err
	}
	if err := fs.Parse(arguments); err != nil {
		return plane.Options{}, fmt.Errorf("a flag of the API server, which are those of kube-apiserver: %w", err)
	}
	o, err := kubeflags.Set{FlagSet: fs}.Options()
	if err != nil {
		return o, fmt.Errorf("the flags of the API server: %w", err)
	}
	if !slices.Contains(o.Admission.Disable, admission.ServiceAccount) {
		// It is enabled by default, also if its controller does not run.
		o.Admission.Enable = append(o.Admission.Enable, admission.ServiceAccount)
	}
	return o, nil
}

// arguments returns the flags as a program gets them.
func (s *APIServer) arguments() ([]string, error) {
	port := s.Port
	if s.SecurePort != 0 {
		port = strconv.Itoa(s.SecurePort)
	}
	s.ownPort = port == ""
	serving := map[string]string{"bind-address": cmp.Or(s.Address, "127.0.0.1"), "secure-port": cmp.Or(port, "0")}
	defaults := map[string][]string{
		"authorization-mode":       {"RBAC"},
		"service-cluster-ip-range": {"10.0.0.0/24"},
	}
	arguments := s.Configure()
	if len(s.Args) > 0 { // then there are no other defaults, as in controller-runtime
		var err error
		if arguments, err = s.withTemplates(arguments); err != nil {
			return nil, err
		}
	} else {
		defaults["disable-admission-plugins"] = []string{admission.ServiceAccount}
	}
	flags := []string{"--bind-address=" + serving["bind-address"], "--secure-port=" + serving["secure-port"]}
	for _, flag := range arguments.AsStrings(defaults) {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if _, ok := serving[name]; ok && value == "" {
			continue // as templates of Args without a port are
		}
		flags = append(flags, flag)
	}
	return flags, nil
}

// withTemplates returns the arguments, with the arguments of Args added.
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
			return nil, fmt.Errorf("an invalid template %q in Args of the API server: %w", text, err)
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(flag.String(), "--"), "=")
		if ok && strings.HasPrefix(flag.String(), "--") {
			merged.AppendNoDefaults(name, value)
		}
	}
	return merged, nil
}
