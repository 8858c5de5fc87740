package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpErrors starts control planes with flags that cannot work. The error says why.
func TestUpErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	keys := filepath.Join(dir, "keys.yaml")
	if err := os.WriteFile(keys, []byte("resources: [{resources: [secrets], providers: [{secretbox: {keys: [{name: a, secret: "+key+"}]}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "damaged")
	if err := os.Mkdir(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "FORMAT"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := filepath.Join(dir, "nodes.yaml")
	if err := os.WriteFile(nodes, []byte("{apiVersion: v1, kind: Node, metadata: {name: a}, status: {capacity: {cpu: -1}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cidrs := filepath.Join(dir, "cidrs.yaml")
	if err := os.WriteFile(cidrs, []byte("{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {podCIDR: 10.244.0.0/33}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const negative = `[status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0, ` +
		`status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0]`
	data := filepath.Join(dir, "data")
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--data-dir", data, "--listen", "nonsense"}, "cannot listen on nonsense: "},
		{[]string{"--data-dir", data, "--listen", "127.0.0.1:99999"}, "cannot listen on 127.0.0.1:99999: "},
		{[]string{"--data-dir", data, "--listen", "203.0.113.1:0"}, "cannot listen on 203.0.113.1:0: "},
		{[]string{"--data-dir", data, "--listen", used.Addr().String()}, ": address already in use"},
		{[]string{"--data-dir", data, "--authorization-mode", "Rbac"}, "Rbac"},
		{[]string{"--data-dir", data, "--audit-policy-file", empty}, "audit policy"},
		{[]string{"--data-dir", data, "--audit-log-format", "xml"}, "invalid audit log format xml"},
		{[]string{"--data-dir", data, "--encryption-provider-config", empty}, "empty.pem"},
		{[]string{"--data-dir", data, "--apiserver-cert-extra-sans", "lb.example.com,https://lb.example.com"}, `"https://lb.example.com" is neither a DNS name nor an IP address`},
		{[]string{"--etcd-listen", "127.0.0.1:2379"}, `"127.0.0.1:2379" is neither a URL of a loopback address`},
		{[]string{"--etcd-listen", "http://0.0.0.0:2379"}, `"http://0.0.0.0:2379" is neither a URL of a loopback address`},
		{[]string{"--data-dir", data, "--encryption-provider-config", keys}, "keys.yaml: apiVersion and kind must be apiserver.config.k8s.io/v1 and EncryptionConfiguration"},
		{[]string{"--data-dir", damaged}, "flyball data check"},
		{[]string{"--etcd-cafile", empty}, "--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--data-dir", dir}, "none of the others can be"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", empty}, "has no certificate in PEM"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", filepath.Join(dir, "none")}, "--etcd-cafile: open "},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-certfile", empty}, "--etcd-certfile needs --etcd-keyfile"},
		{[]string{"--etcd-servers", "127.0.0.1:1"}, `the etcd endpoint "127.0.0.1:1" is not a URL such as https://10.0.0.1:2379`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1,nonsense"}, `the etcd endpoint "nonsense" is not a URL`},
		{[]string{"--etcd-servers", "ftp://127.0.0.1:1"}, `the etcd endpoint "ftp://127.0.0.1:1" is not a URL`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1,http://127.0.0.1:2"}, "etcd cannot be reached: http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; http://127.0.0.1:2: dial tcp"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-cafile", empty}, "--etcd-servers has http://127.0.0.1:1, to which the connection would not be encrypted"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1,HTTP://127.0.0.1:2", "--etcd-cafile", empty}, "--etcd-servers has HTTP://127.0.0.1:2"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-keyfile", empty}, "--etcd-keyfile needs --etcd-certfile"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-certfile", empty, "--etcd-keyfile", empty}, "--etcd-certfile and --etcd-keyfile: "},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-compaction-interval", "-1s"}, "--etcd-compaction-interval must not be negative"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-prefix", "/"}, `--etcd-prefix: the prefix "/" is not possible`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-prefix", "flyball/x"}, `--etcd-prefix: the prefix "flyball/x" is not possible`},
		{[]string{"--etcd-prefix", "/x", "--data-dir", data}, "--etcd-prefix needs --etcd-servers"},
		{[]string{"--etcd-servers-overrides", "/events#http://127.0.0.1:1"}, "--etcd-servers-overrides needs --etcd-servers"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "events#http://127.0.0.1:2"}, `"events#http://127.0.0.1:2" is not group/resource#URL;URL`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "/events"}, `"/events" is not group/resource#URL;URL`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "/events#http://127.0.0.1:2;"}, "is not group/resource#URL;URL"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "/event#http://127.0.0.1:2"}, `there is no built-in resource "event" in the group ""`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "example.com/widgets#http://127.0.0.1:2"}, `there is no built-in resource "widgets" in the group "example.com"`},
		{[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-servers-overrides", "/events#http://127.0.0.1:2,/events#http://127.0.0.1:3"}, "--etcd-servers-overrides has /events twice"},
		{[]string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", empty, "--etcd-servers-overrides", "/events#http://127.0.0.1:2"}, "--etcd-servers-overrides has http://127.0.0.1:2, to which the connection would not be encrypted"},
		{[]string{"--data-dir", data, "--controllers", "*,-gardener"}, `--controllers: "-gardener" is not in the list of known controllers: garbage-collector-controller, `},
		{[]string{"--data-dir", data, "--controllers", "none,namespace"}, `--controllers: none selects no controller, and must be the only item of the list, which is "none,namespace"`},
		{[]string{"--data-dir", data, "--controllers", "namespace", "--nodes", "2"}, "--nodes needs the controller pods, which --controllers does not select"},
		{[]string{"--data-dir", data, "--controllers", "none", "--image", "a=b"}, "--image needs the controller pods"},
		{[]string{"--data-dir", data, "--controllers", "none", "--console"}, "--console needs controllers, and --controllers selects none"},
		{[]string{"--node-capacity", "cpu=-1"}, `nodes flyball: Node "flyball" is invalid: ` + negative},
		{[]string{"--cluster-cidr", "10.244.0.0/25"}, "node-ipam-controller: the cluster CIDR 10.244.0.0/25 is not an IPv4 network with room for the /24 of a node"},
		{[]string{"--cluster-cidr", "10.244"}, `invalid argument "10.244" for "--cluster-cidr"`},
		{[]string{"--cluster-cidr", "10.0.0.0/8", "--controllers", "*,-nodeipam"}, "--cluster-cidr needs the controller node-ipam-controller"},
		{[]string{"--nodes-from", cidrs}, `nodes a: Node "a" is invalid: spec.podCIDRs[0]: Invalid value: "10.244.0.0/33": must be a valid CIDR value`},
		{[]string{"--nodes-from", nodes}, `nodes a: Node "a" is invalid: ` + negative},
		{[]string{"--encryption-provider-config-automatic-reload"}, "needs --encryption-provider-config"},
		{[]string{"--encryption-provider-config", filepath.Join(dir, "none")}, "none: error while parsing file"},
		{[]string{"--etcd-servers", "http://127.0.0.1:1"}, "etcd cannot be reached: http://127.0.0.1:1: dial tcp"},
	} {
		cmd := up()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(append(test.args, "--kubeconfig", filepath.Join(dir, "kubeconfig")))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want an error with %q", test.args, err, test.want)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("%q: the error has a key: %v", test.args, err)
		}
	}
	for _, name := range []string{"kubeconfig", "data"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}
