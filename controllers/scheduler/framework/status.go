package framework

import (
	"fmt"
	"slices"
	"strings"
)

// Status is why a plugin does not admit a pod to a node. Nil means that it does.
//
//upstream:k8s.io/kube-scheduler/framework.Status
type Status struct {
	Reasons []string
	// Unresolvable is whether the eviction of other pods would not help.
	Unresolvable bool
	// Plugin is the name of the plugin.
	Plugin string

	err error // why the plugin could not decide
}

func rejected(plugin string, reasons ...string) *Status {
	return &Status{Plugin: plugin, Reasons: reasons}
}

func unresolvable(plugin string, reasons ...string) *Status {
	return &Status{Plugin: plugin, Reasons: reasons, Unresolvable: true}
}

// preemptionUseless is the reason for nodes on which no eviction makes room for a pod.
const preemptionUseless = "Preemption is not helpful for scheduling"

// fitError returns kube-scheduler's message for a pod that fits on no node: how many nodes have each reason. Nodes without a
// status have the reason of absent.
//
//upstream:pkg/scheduler/framework.FitError
//upstream:pkg/scheduler/framework.FitError.Error
func fitError(nodes int, statuses map[*Node]*Status, absent, common string, postFilter string) string {
	message := fmt.Sprintf("0/%d nodes are available:", nodes)
	if common != "" {
		message += " " + common + "."
	} else {
		counts := map[string]int{}
		for _, s := range statuses {
			for _, reason := range s.Reasons {
				counts[reason]++
			}
		}
		if missing := nodes - len(statuses); missing > 0 && absent != "" {
			counts[absent] += missing
		}
		var list []string
		for reason, n := range counts {
			list = append(list, fmt.Sprintf("%d %s", n, reason))
		}
		if slices.Sort(list); len(list) > 0 {
			message += " " + strings.Join(list, ", ") + "."
		}
	}
	if postFilter != "" {
		message += " " + postFilter
	}
	return message
}
