package chart

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// edit inserts markers into an object for the parts that depend on values or on the release.
func (m *maker) edit(o *object) {
	m.label(o)
	m.editCertificates(o)
	switch {
	case o == m.deployment:
		m.editManager()
	case o.kind() == "CustomResourceDefinition":
		if len(clientConfigs(o)) > 0 {
			o.when(get(o.root, "spec"), "conversion", onWebhook)
		}
		o.add(mapping(mapping(o.root, "metadata"), "annotations"),
			lines("{{- if .Values.crd.keep }}", "helm.sh/resource-policy: keep", "{{- end }}"))
	case strings.HasSuffix(o.kind(), "Binding"):
		for _, subject := range items(o.root, "subjects") {
			if value(subject, "kind") == "ServiceAccount" && value(subject, "name") == m.account {
				set(subject, "name", o.expression(m.include("serviceAccountName")))
			}
		}
	case o.kind() == "ServiceAccount" && o.name() == m.account:
		m.editAccount(o)
	case o.kind() == "ServiceMonitor":
		for _, endpoint := range items(o.root, "spec", "endpoints") {
			if get(endpoint, "tlsConfig", "ca") == nil {
				continue
			}
			config := get(endpoint, "tlsConfig")
			begin, otherwise := o.line(fixed("{{- if "+onCertManager+" }}")), o.line(lines("{{- else }}", "insecureSkipVerify: true", "{{- end }}"))
			config.Content = slices.Concat([]*yaml.Node{begin, null()}, config.Content, []*yaml.Node{otherwise, null()})
		}
	}
}

// label labels an object as part of the release, and restricts selectors of the manager's pods to the release.
func (m *maker) label(o *object) {
	const instance = "app.kubernetes.io/instance"
	release := func() *yaml.Node { return o.expression("{{ .Release.Name }}") }
	labels := mapping(mapping(o.root, "metadata"), "labels")
	set(labels, "app.kubernetes.io/managed-by", o.expression("{{ .Release.Service }}"))
	set(labels, instance, release())
	set(labels, "helm.sh/chart", o.expression(`{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}`))
	var selectors []*yaml.Node
	switch o.kind() {
	case "Deployment":
		if o == m.deployment {
			spec := mapping(o.root, "spec")
			selectors = []*yaml.Node{mapping(mapping(spec, "selector"), "matchLabels"), mapping(mapping(mapping(spec, "template"), "metadata"), "labels")}
		}
	case "Service":
		selectors = []*yaml.Node{get(o.root, "spec", "selector")}
	case "NetworkPolicy":
		selectors = []*yaml.Node{get(o.root, "spec", "podSelector", "matchLabels")}
	case "ServiceMonitor": // it selects Services, which have the labels of the manager
		selectors = []*yaml.Node{get(o.root, "spec", "selector", "matchLabels")}
	}
	for _, selector := range selectors {
		if o == m.deployment || m.selectsManager(selector) {
			set(selector, instance, release())
		}
	}
}

// editCertificates makes cert-manager's resources optional. Without cert-manager, a value has the CA of the webhooks.
func (m *maker) editCertificates(o *object) {
	const inject = "cert-manager.io/inject-ca-from"
	annotations := get(o.root, "metadata", "annotations")
	if index(annotations, inject) >= 0 {
		condition := onCertManager
		if o.kind() == "CustomResourceDefinition" {
			condition = onWebhookCerts
		}
		o.when(annotations, inject, condition)
	}
	for _, config := range clientConfigs(o) {
		o.add(config, lines("{{- if not "+onCertManager+" }}", "{{- with .Values.webhook.caBundle }}", "caBundle: {{ . | quote }}",
			"{{- end }}", "{{- end }}"))
	}
}

// editAccount makes the annotations of the service account a value.
func (m *maker) editAccount(o *object) {
	o.add(mapping(get(o.root, "metadata"), "annotations"), contentOf(".Values.serviceAccount.annotations"))
}

// contentOf returns lines that render the items of a value, if it has items.
func contentOf(path string) func(string) string {
	return func(indent string) string {
		return indent + "{{- with " + path + " }}\n" + toYAML(".", indent) + "\n" + indent + "{{- end }}"
	}
}

// toYAML returns a line that renders a value with an indentation.
func toYAML(expression, indent string) string {
	return fmt.Sprintf("%s{{- toYaml %s | nindent %d }}", indent, expression, len(indent))
}

// field is a field of the Deployment that becomes a value.
type field struct {
	key, value string
	// empty is the value if the field is missing.
	empty any
}

var (
	podFields = []field{{"imagePullSecrets", "imagePullSecrets", []any{}}, {"securityContext", "podSecurityContext", map[string]any{}},
		{"affinity", "affinity", map[string]any{}}, {"nodeSelector", "nodeSelector", map[string]any{}}, {"tolerations", "tolerations", []any{}},
		{"topologySpreadConstraints", "topologySpreadConstraints", []any{}}, {"priorityClassName", "priorityClassName", ""},
		{"terminationGracePeriodSeconds", "terminationGracePeriodSeconds", nil}}
	containerFields = []field{{"resources", "resources", map[string]any{}}, {"securityContext", "securityContext", map[string]any{}}}
)

// editManager makes the fields of the manager's Deployment values.
func (m *maker) editManager() {
	o, spec, pod, container := m.deployment, get(m.deployment.root, "spec"), m.pod(), m.container()
	repository, tag := splitImage(value(container, "image"))
	image := values{{key: "repository", value: repository},
		{key: "tag", comment: "By default the appVersion of the chart.", value: tag},
		{key: "pullPolicy", value: value(container, "imagePullPolicy")}}
	m.values = append(m.values, entry{key: "replicas", value: orDefault(decoded(get(spec, "replicas")), 1)}, entry{key: "image", value: image})
	set(spec, "replicas", o.line(fixed("replicas: {{ .Values.manager.replicas }}")))
	m.replace(spec, "replicas")
	set(container, "image", o.expression(`{{ .Values.manager.image.repository }}`+
		`{{ $tag := .Values.manager.image.tag | default .Chart.AppVersion }}{{ contains ":" $tag | ternary "@" ":" }}{{ $tag }}`))
	m.field(container, field{"imagePullPolicy", "image.pullPolicy", ""}, "")
	m.editArguments(container)
	m.editEnvironment(container)
	for _, f := range containerFields {
		m.field(container, f, f.value)
	}
	for _, f := range podFields {
		m.field(pod, f, f.value)
	}
	if m.account != "" {
		set(pod, "serviceAccountName", o.expression(m.include("serviceAccountName")))
	}
	m.editList(pod, "volumes", m.ofVolume)
	m.editList(container, "volumeMounts", m.ofVolume)
	m.editList(container, "ports", func(port *yaml.Node) string {
		switch number := value(port, "containerPort"); {
		case m.webhook && number == m.webhookPort:
			return onWebhook
		case m.metrics && number == m.metricsPort:
			return onMetrics
		}
		return ""
	})
}

// replace replaces a key and its node by a line.
func (m *maker) replace(n *yaml.Node, key string) {
	i := index(n, key)
	n.Content[i], n.Content[i+1] = n.Content[i+1], null()
}

// ofRelease reports whether a node contains the name or the namespace of the release, which values cannot contain.
func ofRelease(n *yaml.Node) bool {
	return n != nil && (strings.Contains(n.Value, nameToken) || strings.Contains(n.Value, namespaceToken) ||
		slices.ContainsFunc(n.Content, ofRelease))
}

// field makes a field a value of the manager, unless it depends on the release. If name is empty, the value already
// exists.
func (m *maker) field(n *yaml.Node, f field, name string) {
	if ofRelease(get(n, f.key)) {
		return
	}
	if name != "" {
		m.values = append(m.values, entry{key: name, value: orDefault(decoded(get(n, f.key)), f.empty)})
	}
	path := ".Values.manager." + f.value
	set(n, f.key, m.deployment.line(func(indent string) string {
		if f.empty == nil {
			return fmt.Sprintf("%s{{- if not (kindIs \"invalid\" %s) }}\n%s%s: {{ %s }}\n%s{{- end }}", indent, path, indent, f.key, path, indent)
		}
		if f.empty == "" {
			return fmt.Sprintf("%s{{- with %s }}\n%s%s: {{ . | quote }}\n%s{{- end }}", indent, path, indent, f.key, indent)
		}
		return fmt.Sprintf("%s{{- with %s }}\n%s%s:\n%s\n%s{{- end }}", indent, path, indent, f.key, toYAML(".", indent+"  "), indent)
	}))
	m.replace(n, f.key)
}

func orDefault(v, otherwise any) any {
	if v == nil {
		return otherwise
	}
	return v
}

// splitImage splits an image into its repository and its tag or digest. The default tag is latest.
func splitImage(image string) (repository, tag string) {
	if name, digest, ok := strings.Cut(image, "@"); ok {
		return name, digest
	}
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, "latest"
}

// editArguments makes the arguments a value, except the arguments that depend on features or the release.
func (m *maker) editArguments(container *yaml.Node) {
	o, own := m.deployment, []any{}
	all, at := []*yaml.Node{}, 0 // at which the value stands: where the first of its arguments is
	for _, argument := range items(container, "args") {
		switch condition := m.ofArgument(argument.Value); {
		case condition == "" && ofRelease(argument):
			all = append(all, argument)
		case condition == "":
			if len(own) == 0 {
				at = len(all)
			}
			own = append(own, argument.Value)
		case strings.HasPrefix(argument.Value, "--metrics-bind-address="):
			all = append(all, o.line(fixed("{{- if "+condition+" }}")), argument,
				o.line(lines("{{- else }}", "- --metrics-bind-address=0", "{{- end }}")))
		default:
			all = append(all, o.line(fixed("{{- if "+condition+" }}")), argument, o.line(fixed("{{- end }}")))
		}
	}
	m.values = append(m.values, entry{key: "args", comment: "Arguments, beside those for metrics and webhooks.", value: own})
	list := slices.Insert(all, at, o.line(contentOf(".Values.manager.args")))
	set(container, "args", &yaml.Node{Kind: yaml.SequenceNode, Content: list})
}

// ofArgument returns the condition of an argument of the manager.
func (m *maker) ofArgument(argument string) string {
	flag, _, _ := strings.Cut(argument, "=")
	switch {
	case m.metrics && flag == "--metrics-bind-address":
		return onMetrics
	case m.metricsVolume != "" && strings.HasPrefix(flag, "--metrics-cert-"):
		return onMetricsCerts
	case m.webhookVolume != "" && strings.HasPrefix(flag, "--webhook-cert-"), m.webhook && flag == "--webhook-port":
		return onWebhook
	}
	return ""
}

// ofVolume returns the condition of a volume or of its mount.
func (m *maker) ofVolume(volume *yaml.Node) string {
	switch name := value(volume, "name"); {
	case name == "":
	case name == m.webhookVolume:
		return onWebhook
	case name == m.metricsVolume:
		return onMetricsCerts
	}
	return ""
}

// editEnvironment makes the environment variables a value, except the variables that depend on the release. Without
// webhooks, a variable tells the manager so.
func (m *maker) editEnvironment(container *yaml.Node) {
	own, stay := []any{}, []*yaml.Node{}
	for _, variable := range items(container, "env") {
		if ofRelease(variable) {
			stay = append(stay, variable)
		} else {
			own = append(own, decoded(variable))
		}
	}
	m.values = append(m.values, entry{key: "env", value: own})
	o, condition := m.deployment, ".Values.manager.env"
	list := append([]*yaml.Node{o.line(contentOf(".Values.manager.env"))}, stay...)
	if m.webhook {
		condition = "or " + condition + " (not " + onWebhook + ")"
		list = append(list, o.line(lines("{{- if not "+onWebhook+" }}", "- name: ENABLE_WEBHOOKS", `  value: "false"`, "{{- end }}")))
	}
	set(container, "env", &yaml.Node{Kind: yaml.SequenceNode, Content: list})
	if len(stay) == 0 {
		o.when(container, "env", condition)
	}
}

// editList adds conditions to items of a list of the manager, and to the list if all of its items have one.
func (m *maker) editList(n *yaml.Node, key string, condition func(*yaml.Node) string) {
	var conditions []string
	list := get(n, key)
	for _, item := range items(n, key) {
		c := condition(item)
		if c == "" {
			conditions = nil
			break
		}
		if c = "(" + c + ")"; !slices.Contains(conditions, c) {
			conditions = append(conditions, c)
		}
	}
	if len(items(n, key)) == 0 {
		return
	}
	list.Content = m.deployment.conditional(list.Content, condition)
	if len(conditions) > 0 {
		m.deployment.when(n, key, "or "+strings.Join(conditions, " "))
	}
}

// allValues returns the values of the chart.
func (m *maker) allValues() values {
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(m.source.objects, func(o *object) bool { return slices.Contains(kinds, o.kind()) })
	}
	all := values{
		{key: "nameOverride", comment: "In place of the name of the chart in the names of objects.", value: ""},
		{key: "fullnameOverride", comment: "In place of the names of the release and the chart in the names of objects.", value: ""},
		{key: "manager", comment: "The Deployment of the manager.", value: m.values},
		{key: "rbac", value: values{{key: "helpers", comment: "Roles for those who use the kinds of the operator, which nobody is bound to.",
			value: values{{key: "enabled", value: true}}}}},
		{key: "serviceAccount", value: values{{key: "enabled", comment: "Whether to make the service account of the manager.", value: true},
			{key: "name", comment: "The one to use otherwise.", value: ""}, {key: "annotations", value: map[string]any{}}}},
		{key: "crd", value: values{{key: "enabled", comment: "Whether to install the CustomResourceDefinitions.", value: true},
			{key: "keep", comment: "Whether they stay, with all objects, when the release is removed.", value: true}}},
		{key: "metrics", comment: "Whether to serve metrics.", value: values{{key: "enabled", value: m.metrics}}},
		{key: "webhook", value: values{{key: "enabled", value: m.webhook},
			{key: "caBundle", comment: "Without cert-manager, the authority in base64 of the certificate in the Secret " + m.webhookSecret + ".", value: ""}}},
		{key: "certManager", comment: "Whether cert-manager is there, and makes the certificates.",
			value: values{{key: "enabled", value: has("Certificate", "Issuer")}}},
		{key: "prometheus", comment: "Whether the Prometheus operator is there, and scrapes the metrics.",
			value: values{{key: "enabled", value: has("ServiceMonitor")}}},
		{key: "networkPolicy", comment: "Whether only chosen namespaces reach metrics and webhooks.",
			value: values{{key: "enabled", value: has("NetworkPolicy")}}},
	}
	if !m.webhook {
		all = slices.DeleteFunc(all, func(e entry) bool { return e.key == "webhook" })
	}
	return all
}
