package plan

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// WriteMarkdown writes a plan in the Markdown of GitHub, as a comment of a pull request.
func (p *Plan) WriteMarkdown(out io.Writer) error {
	var b strings.Builder
	title := "**" + p.Summary() + "**"
	if p.Source != "" {
		title += " Planned for " + code(p.Source) + "."
	}
	fmt.Fprintf(&b, "## Plan\n\n%s\n", title)
	for _, s := range p.Steps {
		if s.Error != "" {
			fmt.Fprintf(&b, "\n> [!CAUTION]\n> %s is refused: %s\n", code(s.Name), cell(s.Error))
		}
	}
	for _, l := range p.Loops {
		fmt.Fprintf(&b, "\n> [!WARNING]\n> %s never comes to rest: %s\n", code(name(l.Kind, l.APIVersion, l.Namespace, l.Name)), cell(fieldList(l.Fields)))
	}
	if len(p.Changes) > 0 {
		b.WriteString("\n| | object | by | because |\n|---|---|---|---|\n")
		for _, c := range p.Changes {
			by, because := "", ""
			if len(c.Writes) > 0 {
				by, because = c.Writes[0].User, c.Writes[0].Because
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Title(), code(name(c.Kind, c.APIVersion, c.Namespace, c.Name)), cell(by), cell(because))
		}
	}
	var text strings.Builder
	if err := p.WriteText(&text, false); err != nil {
		return err
	}
	fence := "```"
	for strings.Contains(text.String(), fence) {
		fence += "`"
	}
	fmt.Fprintf(&b, "\n<details><summary>The whole plan</summary>\n\n%sdiff\n%s%s\n\n</details>\n", fence, text.String(), fence)
	if len(p.Unknown) > 0 {
		b.WriteString("\nNot known:\n\n")
		for _, u := range p.Unknown {
			fmt.Fprintf(&b, "- %s: %s\n", cell(u.What), cell(u.Why))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// code returns a text as code within a line.
func code(text string) string {
	return "<code>" + cell(text) + "</code>"
}

// special are the characters with a meaning in a line of Markdown.
var special = strings.NewReplacer("|", "&#124;", "*", "&#42;", "_", "&#95;", "`", "&#96;", "[", "&#91;", "]", "&#93;", "~", "&#126;", "\\", "&#92;", "@", "&#64;")

// cell returns a text for a cell of a table, without any Markdown in it.
func cell(text string) string { return special.Replace(html.EscapeString(oneLine(text))) }

// fieldList names fields.
func fieldList(fields []Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Path
	}
	return strings.Join(names, ", ")
}
