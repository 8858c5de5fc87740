package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/cmd/flyball/internal/apply"
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
func (f *nodeFlags) apply(ctx context.Context, flags *pflag.FlagSet, o *pods.Options) (err error) {
	o.AllNodes = f.all
	if f.file != "" {
		for _, name := range []string{"nodes", "node-capacity", "node-zones"} {
			if flags.Changed(name) {
				return fmt.Errorf("--nodes-from and --%s are mutually exclusive", name)
			}
		}
		o.Nodes, err = readNodes(ctx, f.file)
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

// readNodes returns the nodes of a file. A file without a node is an error.
func readNodes(ctx context.Context, file string) ([]corev1.Node, error) {
	documents, err := apply.Read(ctx, os.Stdin, false, file)
	if err != nil {
		return nil, err
	}
	nodes := make([]corev1.Node, len(documents))
	for i, d := range documents {
		if kind := d.Object.GroupVersionKind(); kind != corev1.SchemeGroupVersion.WithKind("Node") {
			return nil, fmt.Errorf("%s: a manifest has the kind %s of %s; want Node or List of v1", d.Source, kind.Kind, kind.GroupVersion())
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(d.Object.Object, &nodes[i], true); err != nil {
			return nil, fmt.Errorf("%s: node %q: %w", d.Source, d.Object.GetName(), err)
		}
	}
	return nodes, nil
}
