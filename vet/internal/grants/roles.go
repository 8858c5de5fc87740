package grants

import (
	"regexp"
	"strings"
)

// roleDocument matches a manifest of a role. roleOfOthers matches the name of a role that does not count: the
// generator writes manager-role from the markers, and roles that end in -editor-role, -viewer-role or
// -admin-role are for users of the kinds and not for the operator.
var (
	roleDocument  = regexp.MustCompile(`(?m)^kind:.*Role(["' }\r]|$)`)
	roleOfOthers  = regexp.MustCompile(`(?m)^ +name: *"?(.*-)?(manager|editor|viewer|admin|leader-election|metrics-auth|metrics-reader)-?role"? *$`)
	ruleKey       = regexp.MustCompile(`^(- +)?(apiGroups|resources|verbs) *: *(.*)$`)
	roleElement   = regexp.MustCompile(`^- *(.+)$`)
	betweenValues = regexp.MustCompile(`[\[\],\s]+`)
)

// rolesIn returns the grants of the roles in a file of manifests. It passes over the lines of a template,
// so the roles of a chart count as well.
func rolesIn(content string) []Grant {
	var all []Grant
	for document := range strings.SplitSeq(content, "\n---") {
		if !roleDocument.MatchString(document) || roleOfOthers.MatchString(document) {
			continue
		}
		var values *[]string
		rule := Grant{}
		for line := range strings.SplitSeq(document, "\n") {
			line = strings.TrimSpace(line)
			if key := ruleKey.FindStringSubmatch(line); key != nil {
				if key[1] != "" {
					all = append(all, rule)
					rule = Grant{}
				}
				values = map[string]*[]string{"apiGroups": &rule.Groups, "resources": &rule.Resources, "verbs": &rule.Verbs}[key[2]]
				for _, value := range betweenValues.Split(key[3], -1) {
					if value != "" {
						*values = append(*values, unquote(value))
					}
				}
			} else if element := roleElement.FindStringSubmatch(line); element != nil && values != nil {
				*values = append(*values, unquote(element[1]))
			} else if !strings.Contains(line, "{{") && !strings.HasPrefix(line, "#") {
				values = nil
			}
		}
		all = append(all, rule)
	}
	return all
}

func unquote(s string) string { return strings.Trim(s, "\"'` ") }
