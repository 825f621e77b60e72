//go:build e2e

package install_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/kcptest"
)

var _ = Describe("a configuration file of an older version", func() {
	It("is what serve and install go by, and serve says how it becomes one of the current version", func(ctx SpecContext) {
		const said = "the configuration file has an older version"
		older := serve(ctx, `
apiVersion: config.warrantgate.dev/v1alpha1
kind: GateConfiguration
repair: {mode: Off, rate: 5}
`)
		install(ctx, older)
		ws := createAs(ctx, bot, "by-an-older-file")
		Expect(ws.Annotations).To(HaveKey(kcptest.CreatedByAnnotation))
		log := logOf(older)()
		Expect(strings.Count(log, said)).To(Equal(1), log)
		Expect(log).To(And(ContainSubstring("config.warrantgate.dev/v1alpha1"), ContainSubstring("repair.mode is Off")))

		By("converting it, as the log says")
		Expect(log).To(ContainSubstring("warrantgate config convert"))
		converted, err := older.Run(ctx, "config", "convert", "-f", older.ConfigFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(converted).To(MatchYAML(`
apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
repair: {mode: "Off", workspacesPerSecond: 5}
`))
		current := serve(ctx, converted)
		Expect(logOf(current)()).To(And(ContainSubstring("repair.mode is Off"), Not(ContainSubstring(said))))
	}, SpecTimeout(time.Minute))
})
