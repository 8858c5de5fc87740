package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers/pods"
)

// nodeFlags are the flags of the nodes.
type nodeFlags struct {
	count    int
	file     string
	capacity map[string]string
	zones    []string
	all      bool
}

// add adds the flags to a command.
func (f *nodeFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.count, "nodes", 1, "the number of nodes: flyball, flyball-2, flyball-3 and so on")
	flags.StringVar(&f.file, "nodes-from", "", "a file with manifests of the nodes, such as the output of kubectl get nodes -o yaml; - is standard input")
	flags.StringToStringVar(&f.capacity, "node-capacity", nil,
		"the capacity of each of --nodes, such as cpu=8,memory=32Gi,pods=110; resources that are not named are unlimited")
	flags.StringSliceVar(&f.zones, "node-zones", nil, "zones over which --nodes are distributed in turn, such as a,b,c")
	flags.BoolVar(&f.all, "all-nodes", false, "simulate the kubelets of all Node objects; by default only of these nodes, "+
		"and of nodes with the annotation "+pods.KubeletAnnotation)
	refuseEmpty(flags, "nodes-from", "node-zones")
}

// apply sets the nodes of a control plane.
func (f *nodeFlags) apply(flags *pflag.FlagSet, o *pods.Options) (err error) {
	o.AllNodes = f.all
	if f.file != "" {
		for _, name := range []string{"nodes", "node-capacity", "node-zones"} {
			if flags.Changed(name) {
				return fmt.Errorf("--nodes-from and --%s are mutually exclusive", name)
			}
		}
		o.Nodes, err = readNodes(f.file)
		return err
	}
	if f.count < 0 {
		return fmt.Errorf("--nodes must not be negative: %d", f.count)
	}
	capacity, err := parseCapacity(f.capacity)
	if err != nil {
		return fmt.Errorf("--node-capacity: %w", err)
	}
	o.Nodes = pods.Nodes(f.count)
	for i := range o.Nodes {
		n := &o.Nodes[i]
		n.Status.Capacity = capacity.DeepCopy()
		if len(f.zones) > 0 {
			metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelTopologyZone, f.zones[i%len(f.zones)])
		}
	}
	return nil
}

// parseCapacity returns the default capacity with other quantities.
func parseCapacity(of map[string]string) (corev1.ResourceList, error) {
	if len(of) == 0 {
		return nil, nil
	}
	list := pods.Capacity()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		q, err := resource.ParseQuantity(of[name])
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, of[name], err)
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, nil
}

// readNodes returns the nodes of a file.
func readNodes(file string) ([]corev1.Node, error) {
	in := os.Stdin
	if file != "-" {
		var err error
		if in, err = os.Open(file); err != nil {
			return nil, err
		}
		defer in.Close()
	}
	nodes, err := decodeNodes(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return nodes, nil
}

// decodeNodes returns the nodes of manifests in YAML or JSON. Without a manifest it returns an error, since a command in a pipe may have
// failed. The list is not nil.
func decodeNodes(in io.Reader) (nodes []corev1.Node, err error) {
	for documents := yamlutil.NewYAMLReader(bufio.NewReader(in)); ; {
		document, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF) && nodes == nil:
			return nil, errors.New("there is no manifest; want Node or List, or --nodes 0 for a start without nodes")
		case errors.Is(err, io.EOF):
			return nodes, nil
		case err != nil:
			return nil, err
		}
		manifests, err := manifestsOf(document)
		if err != nil {
			return nil, err
		}
		for _, manifest := range manifests {
			if nodes, err = appendNodes(nodes, manifest, metav1.TypeMeta{}); err != nil {
				return nil, err
			}
		}
	}
}

// manifestsOf returns the manifests of a document: one in YAML, or any number in JSON.
func manifestsOf(document []byte) (manifests [][]byte, err error) {
	for values := json.NewDecoder(bytes.NewReader(document)); ; {
		var value json.RawMessage
		switch err := values.Decode(&value); {
		case errors.Is(err, io.EOF):
			return manifests, nil
		case err != nil && len(manifests) > 0:
			return nil, err
		case err != nil:
			return [][]byte{document}, nil
		}
		manifests = append(manifests, value)
	}
}

// appendNodes appends the nodes of a manifest, which is a Node or a list of nodes. An item of a list has the type of the list's items
// unless it has one itself. The result is nil only without a manifest.
func appendNodes(nodes []corev1.Node, manifest []byte, item metav1.TypeMeta) ([]corev1.Node, error) {
	list := struct {
		metav1.TypeMeta `json:",inline"`
		Items           []runtime.RawExtension `json:"items"`
	}{TypeMeta: item}
	if err := yaml.Unmarshal(manifest, &list); err != nil {
		return nil, err
	}
	switch {
	case list.Kind == "" && list.APIVersion == "" && len(list.Items) == 0:
		return nodes, nil // comments alone
	case list.Kind == "":
		return nil, errors.New("a manifest has no kind; want Node or List")
	case list.Kind != "Node" && list.Kind != "List" && list.Kind != "NodeList":
		return nil, fmt.Errorf("a manifest has the kind %s; want Node or List", list.Kind)
	case list.APIVersion != "v1":
		return nil, fmt.Errorf("a manifest of the kind %s has the apiVersion %q; want v1", list.Kind, list.APIVersion)
	case list.Kind == "Node":
		node := corev1.Node{}
		if err := yaml.UnmarshalStrict(manifest, &node); err != nil {
			return nil, fmt.Errorf("node %q: %w", node.Name, err)
		}
		return append(nodes, node), nil
	}
	return appendItems(nodes, list.Items, metav1.TypeMeta{APIVersion: "v1", Kind: strings.TrimSuffix(list.Kind, "List")})
}

// appendItems appends the nodes of the items of a list.
func appendItems(nodes []corev1.Node, items []runtime.RawExtension, item metav1.TypeMeta) (_ []corev1.Node, err error) {
	if nodes == nil {
		nodes = []corev1.Node{}
	}
	for i := range items {
		if nodes, err = appendNodes(nodes, items[i].Raw, item); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
