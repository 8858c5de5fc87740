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
	awaited   map[string]int    // by resource, namespace and prefix: the creates without a response
}

func newNames() *names {
	return &names{generates: map[string]int{}, byName: map[string]string{}, awaited: map[string]int{}}
}

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

// await adds more, which may be negative, to the number of creates with a generated name that have no response yet.
func (n *names) await(resource, namespace, prefix string, more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.awaited[resource+" "+namespace+"/"+prefix] += more
}

// seen records the name of an object in an event, which may come before the response to its create. Without such a create, the name is
// not a generated one: the Pods of a StatefulSet have a prefix too.
func (n *names) seen(resource, namespace, prefix, name string) {
	n.mu.Lock()
	isGenerated := prefix != "" && n.awaited[resource+" "+namespace+"/"+prefix] > 0
	n.mu.Unlock()
	if isGenerated {
		n.generated(resource, namespace, prefix, name)
	}
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
