package webhook

import (
	"context"
	"net"
	"strconv"
	"strings"
)

// PodDialFunc connects to a port of a pod.
type PodDialFunc func(ctx context.Context, namespace, pod string, port int32) (net.Conn, error)

// podDomain is the domain of the names of simulated pods: NAME.NAMESPACE.pod.invalid. No name of the DNS ends in invalid.
const podDomain = ".pod.invalid"

// podAddress returns the address of a port of a simulated pod.
func podAddress(namespace, pod string, port int32) string {
	return net.JoinHostPort(pod+"."+namespace+podDomain, strconv.Itoa(int(port)))
}

// parsePodAddress returns the parts of the address of a port of a simulated pod. ok is false for other addresses.
func parsePodAddress(address string) (namespace, pod string, port int32, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", 0, false
	}
	name, ok := strings.CutSuffix(host, podDomain)
	dot := strings.LastIndexByte(name, '.') // the name of a pod may have dots
	number, err := strconv.ParseUint(text, 10, 16)
	if !ok || dot < 0 || err != nil {
		return "", "", 0, false
	}
	return name[dot+1:], name[:dot], int32(number), true
}
