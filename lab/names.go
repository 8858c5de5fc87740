package lab

import (
	"fmt"
	"strings"
	"sync"
)

// names gives canonical names to objects: a name that the server has generated becomes the prefix and a number in the
// order of creation, such as web-7d9c5b*2. Two runs with the same schedule have the same canonical names.
type names struct {
	mu        sync.Mutex
	generates map[string]int    // by resource, namespace and prefix: the names so far
	byName    map[string]string // by resource, namespace and name: the canonical name
}

func newNames() *names { return &names{generates: map[string]int{}, byName: map[string]string{}} }

// canonical returns the namespace and canonical name of an object.
func (n *names) canonical(resource, namespace, name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	resource, _, _ = strings.Cut(resource, "/")
	if known, ok := n.byName[resource+" "+namespace+"/"+name]; ok {
		name = known
	}
	return namespace + "/" + name
}

// generated records a name that the server has generated.
func (n *names) generated(resource, namespace, prefix, name string) {
	if prefix == "" || name == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := resource + " " + namespace + "/"
	if _, known := n.byName[key+name]; known {
		return
	}
	n.generates[key+prefix]++
	n.byName[key+name] = fmt.Sprintf("%s*%d", prefix, n.generates[key+prefix])
}

// replacements returns the generated names and their canonical forms.
func (n *names) replacements() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]string{}
	for key, canonical := range n.byName {
		_, name, _ := strings.Cut(key, "/")
		all[name] = canonical
	}
	return all
}

// protobufPrefix begins each object that Kubernetes encodes as protobuf.
var protobufPrefix = []byte("k8s\x00")
