package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
)

// portFlags are the flags of the ports of this machine that a control plane may lead to.
type portFlags struct {
	forwards []string
	loopback []int
}

// add adds the flags to a command.
func (f *portFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.forwards, "forward", nil,
		"[NAMESPACE/]PODS:PORT=[HOST:]PORT: connections to the port of the pods go to the port of this machine, or to the port of HOST; "+
			"PODS is the name of a pod or a selector of labels; may be repeated")
	flags.IntSliceVar(&f.loopback, "loopback-ports", nil,
		"ports of this machine that Services may lead webhooks and extension API servers to, by the annotation flyball.dev/loopback-port")
	refuseEmpty(flags, "forward", "loopback-ports")
}

// apply sets the ports of a control plane.
func (f *portFlags) apply(o *controlplane.Options) error {
	for _, port := range f.loopback {
		if err := checkPort(port); err != nil {
			return fmt.Errorf("--loopback-ports: %w", err)
		}
		o.LoopbackPorts = append(o.LoopbackPorts, uint16(port))
	}
	if len(f.forwards) == 0 {
		return nil
	}
	handlers := &runtime.Handlers{}
	for _, value := range f.forwards {
		pods, port, address, err := parseForward(value)
		if err == nil {
			_, err = handlers.Forward(pods, port, address)
		}
		if err != nil {
			return fmt.Errorf("--forward %s: %w", value, err)
		}
	}
	o.Controllers.Pods.Handlers = handlers
	return nil
}

// parseForward parses [NAMESPACE/]PODS:PORT=[HOST:]PORT.
func parseForward(text string) (pods runtime.Selector, port int32, address string, err error) {
	end := strings.LastIndexByte(text, '=')
	if end < 0 {
		return pods, 0, "", errors.New("the form is [NAMESPACE/]PODS:PORT=[HOST:]PORT")
	}
	from, to := text[:end], text[end+1:]
	colon := strings.LastIndexByte(from, ':')
	if colon < 0 {
		return pods, 0, "", errors.New("the form is [NAMESPACE/]PODS:PORT=[HOST:]PORT")
	}
	if port, err = parsePort(from[colon+1:]); err != nil {
		return pods, 0, "", err
	}
	if pods, err = parsePods(from[:colon]); err != nil {
		return pods, 0, "", err
	}
	host, number, err := net.SplitHostPort(to)
	if err != nil {
		host, number = "127.0.0.1", to
	}
	if _, err := parsePort(number); err != nil {
		return pods, 0, "", err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return pods, port, net.JoinHostPort(host, number), nil
}

// parsePods parses [NAMESPACE/]PODS. A slash after a name with a dot belongs to the key of a label.
func parsePods(text string) (pods runtime.Selector, err error) {
	if namespace, rest, ok := strings.Cut(text, "/"); ok && len(utilvalidation.IsDNS1123Label(namespace)) == 0 {
		pods.Namespace, text = namespace, rest
	}
	if len(validation.NameIsDNSSubdomain(text, false)) == 0 {
		pods.Pod = text
		return pods, nil
	}
	if text == "" {
		return pods, errors.New("there is no name of a pod, and no selector of labels")
	}
	if _, err := labels.Parse(text); err != nil {
		return pods, fmt.Errorf("%q is neither the name of a pod nor a selector of labels: %w", text, err)
	}
	pods.Labels = text
	return pods, nil
}

// parsePort parses a port.
func parsePort(text string) (int32, error) {
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return int32(port), checkPort(port)
}

// checkPort returns an error if a number is not a port.
func checkPort(port int) error {
	if errs := utilvalidation.IsValidPortNum(port); len(errs) > 0 {
		return fmt.Errorf("%d is not a port: it %s", port, errs[0])
	}
	return nil
}
