package machines

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// printMachine prints a report as text: the machine and its account, the instances that it names, other instances of the account, and what to do.
// Tenants wrote most values.
func printMachine(out io.Writer, report explanation) error {
	text := &bytes.Buffer{}
	machine := report.Machine
	rows := [][]string{
		{"Machine:", fmt.Sprintf("%s %s of namespace %s", machine.Kind, machine.Name, machine.Namespace)},
		{"Cluster:", cmp.Or(machine.Cluster, "none")},
		{"Owner:", cmp.Or(machine.Owner, "none")},
	}
	if machine.Mode != v1beta1.Enforce {
		rows = append(rows, []string{"Gate:", fmt.Sprintf("machine.mode is %s, so no write is denied", machine.Mode)})
	}
	if account := report.Account; machine.Provider.IsExternal() {
		rows = append(rows, []string{"Account:", fmt.Sprintf("not checked: of the provider %s only IDs are compared", machine.Provider)})
	} else if account == nil {
		rows = append(rows, []string{"Account:", "unknown"})
	} else {
		rows = append(rows, []string{"Account:", account.Description}, []string{"API:", cmp.Or(account.API, "unknown")})
	}
	if len(report.Instances) == 0 {
		rows = append(rows, []string{"Instance:", "none"})
	}
	cli.Table(text, "", rows)
	for _, instance := range report.Instances {
		printInstance(text, instance)
	}
	if len(report.Own) > 0 {
		fmt.Fprintln(text, "\nOther instances of the account for this machine:")
		own := make([][]string, 0, len(report.Own))
		for _, instance := range report.Own {
			own = append(own, []string{instance.ID, instance.Name, "named by " + cmp.Or(strings.Join(instance.NamedBy, ", "), "no machine")})
		}
		cli.Table(text, "  ", own)
	}
	if err := cli.PrintFindings(out, text, cli.OfObject, report.Findings); err != nil {
		return err
	}
	_, err := out.Write(text.Bytes())
	return err
}

func printInstance(text *bytes.Buffer, instance instanceReport) {
	fmt.Fprintf(text, "\nInstance %s in %s:\n", message.Printable(instance.Value), strings.Join(instance.Fields, " and "))
	cli.Table(text, "  ", [][]string{
		{"the cloud's answer:", describeAnswer(instance.Cloud)},
		{"also named by:", cmp.Or(strings.Join(instance.NamedBy, ", "), "no machine")},
		{"a write of it now:", describeWrite(instance.Write)},
	})
}

func describeAnswer(cloud *cloudReport) string {
	if cloud == nil {
		return "it was not asked"
	}
	answer := cloud.Error
	if cloud.Error == "" {
		answer = map[ownership.Verdict]string{
			ownership.Owned: "it belongs to the account", ownership.Foreign: "it exists, and does not belong to the account", ownership.Absent: "it does not exist",
		}[cloud.Verdict] + " (" + cloud.Response + ")"
	}
	if cloud.UserID != "" {
		answer += ", asked as " + cloud.UserID
	}
	if cloud.RequestID != "" {
		answer += ", request id " + cloud.RequestID
	}
	return answer
}

// describeWrite describes the decision about a write. Its message is among the findings.
func describeWrite(write writeReport) string {
	switch write.Decision {
	case decisionDenied:
		return "denied (" + write.Reason + ")"
	case decisionUnknown:
		return "unknown, as not everything could be checked"
	case decisionUndecided:
		const retried = "denied with 503 and retried"
		if write.First == string(webhooks.Warned) {
			return retried + " if the machine named another instance before, and admitted with a warning if it named none"
		}
		return retried
	case string(webhooks.Warned):
		return "admitted with a warning (" + write.Reason + ")"
	}
	return write.Decision
}
