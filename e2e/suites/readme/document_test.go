//go:build e2e

package readme_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// indent is the beginning of each line of a block.
	indent = "    "
	// The paragraph before a block ends with shown if the block is the output of the block before it, and with apart if its command
	// keeps running in another terminal.
	shown, apart = "The output is similar to this:", "in a terminal of its own:"
	// anything matches any text in a line of shown output or, if it is the whole line, any number of lines.
	anything = "..."
)

// block is a block of commands in a document.
type block struct {
	commands string
	// output is the output that the document shows for the commands. It is empty if the commands print nothing.
	output string
	// apart is true if the command keeps running in a terminal of its own.
	apart bool
}

// blocksOf returns the blocks of a section, up to the next heading of any level. Commands are in indented blocks. Fenced blocks are
// something else, such as diagrams.
func blocksOf(document, heading string) ([]block, error) {
	_, text, found := strings.Cut("\n"+document, "\n"+heading+"\n")
	if !found {
		return nil, fmt.Errorf("there is no section %q", heading)
	}
	var blocks []block
	var paragraph, before string // before is the paragraph before the current block
	inBlock, fenced := false, false
	for line := range strings.Lines(text) {
		content, indented := strings.CutPrefix(line, indent)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			continue
		case fenced:
			continue
		case strings.HasPrefix(line, "#"):
			return blocks, nil
		case !indented:
			if strings.TrimSpace(line) != "" {
				paragraph, inBlock = strings.TrimSpace(line), false
			}
			continue
		case !inBlock:
			before, inBlock = paragraph, true
			if !strings.HasSuffix(before, shown) {
				blocks = append(blocks, block{apart: strings.HasSuffix(before, apart)})
			} else if len(blocks) == 0 {
				return nil, fmt.Errorf("section %q shows output before any command", heading)
			}
		}
		last := &blocks[len(blocks)-1]
		if strings.HasSuffix(before, shown) {
			last.output += content
		} else {
			last.commands += content
		}
	}
	return blocks, nil
}

// similar returns the regular expression of all output that is similar to shown output.
func similar(output string) string {
	var expression strings.Builder
	for line := range strings.Lines(output) {
		if strings.TrimSpace(line) == anything {
			expression.WriteString(`(.*\n)*`)
			continue
		}
		parts := strings.Split(line, anything)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		expression.WriteString(strings.Join(parts, ".*"))
	}
	return `\A` + expression.String() + `\z`
}

var _ = Describe("A quick start", func() {
	DescribeTable("is run by a spec of this suite, and no other section has commands", func(document string, followed ...string) {
		for line := range strings.Lines(file(document)) {
			if heading := strings.TrimSpace(line); strings.HasPrefix(heading, "#") && !slices.Contains(followed, heading) {
				Expect(section(document, heading)).To(BeEmpty(), heading)
			}
		}
		for _, heading := range followed {
			Expect(section(document, heading)).NotTo(BeEmpty(), heading)
		}
	},
		Entry("in the README", readme, start, policiesAlone, helmBesideKCP, helmForClusterAPI),
		Entry("on one machine", oneMachine, oneMachineStart, oneMachineStuck, oneMachineInstall, oneMachineShown, oneMachineUninstall),
		Entry("of the gates on workspaces", workspaces, workspacePolicies, workspaceWebhooks),
		Entry("of the gates on Cluster API", clusterAPI, clusterAPIInstall, clusterAPIUninstall),
	)

	It("is read with its commands and their output", func() {
		blocks, err := blocksOf("# A\n\n    other\n\n## B\n```mermaid\n    a --> b\n```\nStart it in a terminal of its own:\n\n    serve\n\nCall it:\n\n    call <<EOF\n      x\n\n    EOF\n\n"+
			"The output is similar to this:\n\n    called\n    ...\n\nStop it:\n\n    stop\n\n### C\n\n    another\n", "## B")
		Expect(err).NotTo(HaveOccurred())
		Expect(blocks).To(Equal([]block{
			{commands: "serve\n", apart: true}, {commands: "call <<EOF\n  x\nEOF\n", output: "called\n...\n"}, {commands: "stop\n"},
		}))
	})
})
