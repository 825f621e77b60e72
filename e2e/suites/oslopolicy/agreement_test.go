//go:build e2e

package oslopolicy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/internal/oslopolicy"
)

// question is the input of warrantgate's evaluation and of oslo.policy's.
type question struct {
	Rule        string         `json:"rule"`
	Target      map[string]any `json:"target"`
	Credentials map[string]any `json:"credentials"`
}

type fileRequest struct {
	File      string     `json:"file"`
	Keystone  bool       `json:"keystone"`
	Questions []question `json:"questions"`
}

type fileReply struct {
	Loads   bool     `json:"loads"`
	Answers []string `json:"answers"`
}

// ours is the reply of warrantgate's reader, in the form of the reference.
func ours(request fileRequest) fileReply {
	file, err := oslopolicy.Read("policy.yaml", []byte(request.File))
	if err != nil {
		return fileReply{Answers: []string{}}
	}
	policy := oslopolicy.NewPolicy(file)
	if request.Keystone {
		policy = oslopolicy.DefaultRelease.Policy(file)
	}
	reply := fileReply{Loads: true, Answers: []string{}}
	for _, q := range request.Questions {
		passed, err := policy.Enforce(q.Rule, q.Target, q.Credentials)
		switch {
		case err != nil:
			reply.Answers = append(reply.Answers, "error")
		case passed:
			reply.Answers = append(reply.Answers, "allow")
		default:
			reply.Answers = append(reply.Answers, "deny")
		}
	}
	return reply
}

// disagreements evaluates files with warrantgate's reader and the reference. It returns the differences, and the number of each reply. The
// reply is "rejected" for a file that oslo.policy loads and our reader rejects, because other readers might load it differently.
func disagreements(requests []fileRequest) (differences []string, given map[string]int) {
	GinkgoHelper()
	given = map[string]int{}
	for _, request := range requests {
		var theirs fileReply
		oslo.call(request, &theirs)
		own := ours(request)
		if theirs.Loads && !own.Loads {
			given["rejected"]++
			continue
		}
		if own.Loads != theirs.Loads {
			differences = append(differences, fmt.Sprintf("%q loads: ours %t, reference %t", request.File, own.Loads, theirs.Loads))
			continue
		}
		if !own.Loads {
			given["unloadable"]++
		}
		for i, answer := range theirs.Answers {
			given[answer]++
			if own.Answers[i] != answer {
				q := request.Questions[i]
				differences = append(differences, fmt.Sprintf("%q %s %v %v: ours %s, reference %s",
					request.File, q.Rule, q.Target, q.Credentials, own.Answers[i], answer))
			}
		}
	}
	return differences, given
}

// helpers are the rules that the generated ones refer to.
var helpers = map[string]any{
	"a": "role:member", "b": "user_id:%(user_id)s or rule:a", "open": "@", "shut": "!", "nothing": "", "remote": "http://127.0.0.1/%(nope)s",
	"circle": "rule:around", "around": "role:nobody or rule:circle", "early": "@ or rule:early", "lone": "and",
}

// questionsOf evaluates a rule for different callers and targets.
func questionsOf(rule string) []question {
	admin := map[string]any{"user_id": "u1", "project_id": "p1", "domain_id": nil, "roles": []any{"Admin", "member"}, "is_admin_project": true}
	manager := map[string]any{
		"user_id": "u2", "domain_id": "d1", "roles": []any{"manager", "i̇"}, "is_admin_project": false, "lst": []any{"x", "y"},
		"token": map[string]any{
			"user":  map[string]any{"id": "u2", "domain": map[string]any{"id": "d1"}},
			"roles": []any{map[string]any{"name": "manager"}, map[string]any{"name": "member"}}, "nothing": nil,
		},
		"empty": []any{}, "project-id": "p1", "num": 5, "words": []any{"a", "it's"},
	}
	full := map[string]any{
		"user_id": "u1", "dom": "d1", "role": "MEMBER", "flag": true, "null": nil, "num": 5, "lst": []any{"a", "it's"}, "a(b)c": "u1",
		"target.user.domain_id": "d1", "empty": "", "x": "x",
	}
	var questions []question
	for _, credentials := range []map[string]any{admin, manager, {}} {
		for _, target := range []map[string]any{full, {"user_id": "u2", "role": "manager"}, {}} {
			questions = append(questions, question{Rule: rule, Target: target, Credentials: credentials})
		}
	}
	return questions
}

var words = []string{
	"role:admin", "role:ADMIN", "role:%(role)s", "role:Member", "role:%(nope)s", "role:", "role:a:b", "Role:admin", "role:İ", "rule:a", "rule:b", "rule:open",
	"rule:shut", "rule:nothing", "rule:missing", "rule:%(role)s", "rule:circle", "rule:early", "rule:remote", "rule:lone", "rule:", "user_id:%(user_id)s",
	"user_id:%(nope)s", "user_id:u1", "user_id:'u1'", "user_id:", "user_id:%(a(b)c)s", "token.user.domain.id:%(dom)s", "token.roles.name:member",
	"token.roles:x", "token.user.id.x:y", "token.nothing:None", "token.nothing.x:y", "token.roles.name.x:y", "roles:%(role)s", "lst:x", "lst.a:x", "empty:x", "domain_id:d1",
	"domain_id:None", "domain_id.x:None", "is_admin_project:True", "is_admin_project:true", "True:%(flag)s", "None:%(null)s", "None:None", "'MEMBER':%(role)s",
	`"MEMBER":%(role)s`, "'a':'a'", "'a':a", `'it\'s':it's`, "1:1", "5:%(num)s", "1a:x", "01:1", "00:0", "1_0:10", "0x1F:31", "0b11:3", "0o17:15", "-1:-1", "+1:1", "--1:-1", "1.0:1.0",
	"1e3:1000.0", ".5:0.5", "5.:5.0", "1e16:1e+16", "0.00001:1e-05", "1.5e300:1.5e+300", "class:x", "a.class:x", "a.None:x", "None.x:x", "project-id:p1", "a..b:c", ".a:b", "a.:b",
	":x", "%(x:y", "x:%(x", "x:%(x)", "x:%(x)q", "x:%(nope)q", "x:%", "x:%%", "'%':%%", "'d5z':d%(num)sz", "5:%(num)d", "1:%(flag)d", "u1:%(user_id)d", "num:%(num)d", "'u':%(user_id).1s",
	"'%(x)%':x", "user_id:%(user_id)-2s", "$a:b", "a?:b", "a+b:c", "a-1:b", "1-2:b", "a**b:c", "a-:b", "@", "!", "foo", "'quoted'", `"quoted"`, "''", "'", `"`, "http://h/%(nope)s", "https://h/%(num)s",
	"http:x", "words:it's", "token.user.domain:x", "token:x", "x:y)z", "a(b:c", "@@", "!role:admin", "not:x", "and:x", "or", "and", "not", "&&", "||", "u'a':a", "'a'x:a",
	"5:%(num)s%(nope)s", "x:%(lst)s", "'x':%(x)s", "empty:%(empty)s", "'':%(empty)s", "a\u00a0b:c", "é:x",
}

type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) word() string { return words[g.IntN(len(words))] }

// expression is an expression that can be parsed if its words are checks.
func (g generator) expression(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return g.word()
	}
	switch g.IntN(4) {
	case 0:
		return g.pick("not ", "NOT  ", "Not\n") + g.expression(depth-1)
	case 1:
		return g.pick("(", "( ") + g.expression(depth-1) + g.pick(")", " )")
	}
	return g.expression(depth-1) + g.pick(" and ", " or ", " AND ", "\tOr ", "\nand\n", "\u2003or\u00a0", "\x1cand\x1f") + g.expression(depth-1)
}

// soup is a random sequence of words that can rarely be parsed.
func (g generator) soup() string {
	var row []string
	for range g.IntN(6) {
		row = append(row, g.pick(g.word(), g.word(), "and", "or", "not", "(", ")", "()", "(("+g.word(), g.word()+"))"))
	}
	return strings.Join(row, g.pick(" ", "  ", "\n"))
}

// value is any value that a file can contain.
func (g generator) value(depth int) any {
	switch g.IntN(12) {
	case 0, 1:
		return []any{nil, true, false, 0, 0.0, 3, 1.5, "", " "}[g.IntN(9)]
	case 2:
		if depth > 0 {
			return map[string]any{g.word(): g.value(depth - 1)}
		}
		return map[string]any{}
	case 3, 4, 5, 6, 7, 8:
		list := []any{}
		for range g.IntN(4) {
			if depth > 0 && g.IntN(2) == 0 {
				list = append(list, g.value(depth-1))
			} else {
				list = append(list, g.word())
			}
		}
		return list
	}
	return g.word()
}

// file puts a rule between the helpers, as JSON or as YAML.
func (g generator) file(value any) string {
	rules := map[string]any{"rule": value}
	for name, helper := range helpers {
		rules[name] = helper
	}
	if g.IntN(4) == 0 {
		rules["default"] = g.pick("@", "!", "role:manager", "rule:a", "rule:default")
	}
	if g.IntN(2) == 0 {
		document, err := json.MarshalIndent(rules, "", "\t")
		Expect(err).NotTo(HaveOccurred())
		return string(document)
	}
	var b strings.Builder
	for name, rule := range rules {
		document, err := json.Marshal(rule)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&b, "%s: %s\n", name, document)
	}
	return b.String()
}

// surprises are whole files, including all that the documents about oslo.policy's surprises name.
var surprises = []string{
	`rule: "(role:admin) rule:a"`, `rule: "role:admin role:member"`, `rule: "(role:admin"`, `rule: "role:admin)"`, `rule: "role:admin or"`, `rule: "()"`,
	`rule: "role:admin && role:member"`, `rule: "   "`, `rule: [[]]`, `rule: {role: admin}`, `rule: {"role:admin": x}`, `rule: {"@": x}`, `rule: foo`, `rule: "foo or @"`, `rule: "not foo"`,
	`rule: ""`, `rule: null`, `rule: []`, `rule: {}`, `rule: ~`, `rule:`, `rule: !`, `rule: ! role:admin`, `rule: "!"`, `rule: "@"`, `rule: @`, `rule: off`, `rule: on`, `rule: no`, `rule: false`, `rule: true`, `rule: 0`,
	`rule: 0.0`, `rule: 0x0`, `rule: 00`, `rule: -0`, `rule: 1`, `rule: 1.5`, `rule: 0o0`, `rule: 2020-01-01`, `rule: 1:30`, `rule: .inf`, `rule: 0b0`, `rule: y`, `rule: n`, `rule: .0`, `rule: 1_000`, `rule: 08`,
	`rule: "rule:unknown"`, `rule: "not rule:unknown"`, "rule: rule:unknown\ndefault: \"@\"", "rule: rule:unknown\ndefault: \"!\"", "rule: rule:unknown\ndefault: rule:other",
	`rule: rule:rule`, "rule: rule:b\nb: rule:rule", `rule: not`, `rule: and`, `rule: "'x'"`, `rule: "("`, `rule: ")"`, `rule: "''"`, `rule: "x:%(x"`, `rule: "1a:x"`, `rule: "class:x"`, "rule: role:admin\nrule: \"@\"",
	"rule: \"@\"\nrule: role:nobody", `- rule`, `rule`, ``, `[]`, `{}`, `"x"`, `0`, `null`, "rule: a\n\tb: c", "rule:\trole:admin", "rule: a\n---\nrule: b", "---\nrule: \"@\"\n...\n", "rule: [[role:admin, role:member], role:manager]",
	`rule: ["role:admin or role:member"]`, `rule: ["not role:admin"]`, `rule: ["not foo"]`, `rule: [["role:admin", 5]]`, `rule: [5]`, `rule: [null, "@"]`, `rule: [""]`, `rule: [[""]]`, `rule: [[["role:admin"]]]`, `rule: ["(role:admin"]`,
	"rule: &x role:admin\nother: *x", "off: role:admin\nrule: \"@\"", "rule: |\n  role:admin\n  or role:member\n", "rule: >-\n  role:admin\n  or role:member\n", `{"rule": "role:admin"}`, `{"rule": null}`, `{"rule": 5}`, `{"rule": [["role:admin"]]}`,
	`{"rule": "@", "rule": "!"}`, `[]`, `["x"]`, `{"rule": "role:admin",}`, `rule: 'role:admin' # why`, `rule: !!str role:admin`, `rule: !foo role:admin`, `rule: role:admin, role:member`, `rule: "role:\u0430dmin"`,
	"rule: \"role:admin\" or role:member", `rule: role: admin`, "\ufeffrule: role:admin", "\ufeff# comment\nrule: role:admin", "\ufeff\nrule: \"@\"", "\ufeff{\"rule\": \"role:admin\"}", "\ufeff---\nrule: role:admin", "\ufeff",
	"\ufeff\ufeffrule: role:admin", "\ufeff rule: role:admin", "rule: \ufeffrole:admin", "rule: role:admin\r\n", "\ufeffrule: role:admin or\r\n  role:manager\r\nother: \"@\"\r\n", "rule: |\r\n  role:admin\r\n",
	`? rule` + "\n: role:admin", "other: \"@\"",
	// Differences of earlier runs with mutated files.
	"\"rule\":\t\"role:admin\"", "\"rule\"\t: \"role:admin\"", "\"rule\": \"role:admin\"\t\nother: \"@\"", "\"rule\": role:admin\t", "rule: role:admin\t# why", "\"rule\": |#\n  role:admin",
	`"rule": !!str {role:admin}`, `"rule": !!str ["role:admin"]`, "\"rule\": \"role:admin\" \t# why", "\"rule\": [\"role:admin\",\t\"@\"]", "\"rule\": [\"role:admin\"]\t", `'rule' : 'role:admin'`,
}

// rejectedSurprises are those that oslo.policy loads and our reader rejects.
var rejectedSurprises = []string{
	`rule: ! role:admin`, `rule: 0.0`, `rule: 0x0`, `rule: 00`, `rule: -0`, `rule: 0o0`, `rule: 0b0`, `rule: .0`, `rule: 08`,
	"\ufeff\ufeffrule: role:admin", "\ufeff rule: role:admin", "rule: \ufeffrole:admin",
	`rule: [["role:admin", 5]]`, "rule: &x role:admin\nother: *x", `rule: !!str role:admin`, `? rule` + "\n: role:admin",
}

var _ = Describe("Our reading of policy files and oslo.policy's", func() {
	It("is the same for generated rules", func(_ SpecContext) {
		g := generator{rand.New(rand.NewPCG(1, 2))}
		var requests []fileRequest
		add := func(value any) {
			requests = append(requests, fileRequest{File: g.file(value), Questions: questionsOf("rule")})
		}
		for _, word := range words {
			add(word)
			add("not " + word)
			add([]any{word})
		}
		for range 400 {
			add(g.expression(4))
			add(g.soup())
			add(g.value(3))
		}
		differences, given := disagreements(requests)
		AddReportEntry("answers", fmt.Sprintf("%d generated rules, answers of the reference: %v", len(requests), given))
		Expect(differences).To(BeEmpty())
		for _, answer := range []string{"allow", "deny", "error", "unloadable"} {
			Expect(given[answer]).To(BeNumerically(">=", 20), answer+" has to occur, or the comparison proves nothing")
		}
		Expect(given["rejected"]).To(BeNumerically("<=", len(requests)/20), "too many that oslo.policy loads are rejected")
	}, SpecTimeout(specTimeout))

	It("is the same for the known surprises", func(_ SpecContext) {
		var requests []fileRequest
		for _, file := range surprises {
			requests = append(requests, fileRequest{File: file, Questions: questionsOf("rule")})
		}
		differences, given := disagreements(requests)
		AddReportEntry("answers", fmt.Sprintf("%d files, answers of the reference: %v", len(requests), given))
		Expect(differences).To(BeEmpty())
		Expect(given["rejected"]).To(Equal(len(rejectedSurprises)))
		for _, file := range rejectedSurprises {
			Expect(surprises).To(ContainElement(file))
			_, err := oslopolicy.Read("policy.yaml", []byte(file))
			Expect(err).To(HaveOccurred(), file)
		}
	}, SpecTimeout(specTimeout))

	DescribeTable("is the same for Keystone's policy", func(file string, keystone bool) {
		document := []byte("{}")
		if file != "" {
			var err error
			document, err = os.ReadFile(filepath.Join("testdata", file))
			Expect(err).NotTo(HaveOccurred())
		}
		request := fileRequest{File: string(document), Keystone: keystone, Questions: keystoneQuestions()}
		differences, given := disagreements([]fileRequest{request})
		AddReportEntry("answers", fmt.Sprintf("%d questions, answers of the reference: %v", len(request.Questions), given))
		Expect(differences).To(BeEmpty())
		Expect(given["deny"]).To(BeNumerically(">", 100))
		Expect(given["allow"]).To(BeNumerically(">", 100))
	},
		Entry("with the override of 37 rules alone", "domain-manager.yaml", false),
		Entry("with the override over Keystone's own rules", "domain-manager.yaml", true),
		Entry("with the faulty override over Keystone's own rules", "domain-manager-faulty.yaml", true),
		Entry("as Keystone ships it", "", true),
	)
})
