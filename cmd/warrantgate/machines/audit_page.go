package machines

import (
	_ "embed" // for the style
	"fmt"
	"html"
	"io"
	"strings"
)

//go:embed audit.css
var auditStyle string

// htmlPage is the text of a page.
type htmlPage struct{ strings.Builder }

// add adds markup. It escapes all texts among the arguments, which must be in the content of elements. Package html/template is not used: it
// would make the binary 12 MB larger, because with templates the linker must keep all exported methods.
func (p *htmlPage) add(markup string, args ...any) {
	for i := range args {
		if text, ok := args[i].(string); ok {
			args[i] = html.EscapeString(text)
		}
	}
	fmt.Fprintf(p, markup, args...)
}

// html writes the report as a page that loads nothing and has no script. Its policy forbids both, so that they would have no effect even if a
// text were taken for markup.
func (r auditReport) html(out io.Writer) error {
	p := &htmlPage{}
	p.WriteString(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>warrantgate audit</title>
<style>
` + auditStyle)
	for i := range r.Reasons {
		p.add(":root:has(.r%[1]d:checked) #findings tbody tr:not(.r%[1]d) { display: none }\n", i)
	}
	for i := range r.Namespaces {
		p.add(":root:has(.n%[1]d:checked) #findings tbody tr:not(.n%[1]d) { display: none }\n", i)
	}
	p.add("</style>\n</head>\n<body>\n<h1>warrantgate audit</h1>\n<p>API server <code>%s</code>, %s. Machines: %d, accounts: %d, findings: %d.</p>\n",
		r.Server, r.Time, r.Machines, r.Accounts, len(r.Findings))
	switch {
	case r.Failed != "":
		p.add("<p class=\"failed\"><strong>Not everything could be checked:</strong> %s</p>\n", r.Failed)
	case len(r.Findings) == 0:
		p.add("<p>Nothing is wrong.</p>\n")
	}
	if len(r.Findings) > 0 {
		p.counts(r)
		p.filters(r)
		p.findings(r)
	}
	p.add("</body>\n</html>\n")
	_, err := io.WriteString(out, p.String())
	return err
}

// table begins a table that can be scrolled, also with the keyboard, under a heading.
func (p *htmlPage) table(id, label string, columns ...string) {
	p.add("<div class=\"wide\" role=\"region\" aria-labelledby=\"%s\" tabindex=\"0\">\n<table id=\"%s\">\n<thead><tr>", label, id)
	for _, column := range columns {
		p.add("<th scope=\"col\">%s</th>", column)
	}
	p.add("</tr></thead>\n<tbody>\n")
}

func (p *htmlPage) endTable() { p.add("</tbody>\n</table>\n</div>\n") }

func (p *htmlPage) counts(r auditReport) {
	p.add("<h2 id=\"by-reason\">Findings by reason</h2>\n")
	p.table("reasons", "by-reason", "Reason", "Findings", "What to do")
	for _, reason := range r.Reasons {
		p.add("<tr><th scope=\"row\">%s</th><td>%d</td><td>%s</td></tr>\n", reason.Name, reason.Count, reason.WhatToDo)
	}
	p.endTable()
	p.add("<h2 id=\"by-namespace\">Findings by namespace</h2>\n")
	p.table("namespaces", "by-namespace", "Namespace", "Findings")
	for _, namespace := range r.Namespaces {
		p.add("<tr><th scope=\"row\">%s</th><td>%d</td></tr>\n", namespace.Name, namespace.Count)
	}
	p.endTable()
}

// filters has an option for each group. The style hides the findings of the others, by the classes of options and rows.
func (p *htmlPage) filters(r auditReport) {
	p.add("<h2 id=\"all\">Findings</h2>\n<form autocomplete=\"off\">\n<label>Reason <select id=\"reason\"><option>all</option>")
	for i, reason := range r.Reasons {
		p.add("<option class=\"r%d\">%s</option>", i, reason.Name)
	}
	p.add("</select></label>\n<label>Namespace <select id=\"namespace\"><option>all</option>")
	for i, namespace := range r.Namespaces {
		p.add("<option class=\"n%d\">%s</option>", i, namespace.Name)
	}
	p.add("</select></label>\n<input type=\"reset\" value=\"Show all\">\n</form>\n")
}

func (p *htmlPage) findings(r auditReport) {
	p.table("findings", "all", "Namespace", "Object", "Reason", "Instance", "Message")
	for _, f := range r.Findings {
		p.add("<tr class=\"r%d n%d\"><td>%s</td><td>%s</td><td>%s</td><td><code>%s</code></td><td>%s</td></tr>\n",
			indexOf(r.Reasons, f.Reason), indexOf(r.Namespaces, f.Namespace), f.Namespace, f.Object, f.Reason, f.Instance, f.Message)
	}
	p.endTable()
	p.add("<p>Shown: <span id=\"shown\"></span> of %d.</p>\n", len(r.Findings))
}
