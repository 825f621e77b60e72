package charts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestTheNetworkPolicy checks which clients may reach the webhooks, and that the pods may not connect to the metadata addresses of clouds,
// which return credentials to every client.
func TestTheNetworkPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		values       string
		wantWebhooks []networkingv1.NetworkPolicyPeer
		wantEgress   []networkingv1.NetworkPolicyEgressRule
	}{
		"by default": {
			wantEgress: egress([]int32{443, 5000, 6443, 8443, 8774},
				&networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"169.254.0.0/16"}},
				&networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fe80::/10", "fd00:ec2::254/128"}}),
		},
		"as narrow as is known": {
			values:       "networkPolicy: {apiServers: [192.0.2.0/28], egressPorts: [6443], egressExcept: {ipv4: [0.0.0.0/1], ipv6: []}}\n",
			wantWebhooks: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/28"}}},
			wantEgress: egress([]int32{6443},
				&networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"0.0.0.0/1"}}, &networkingv1.IPBlock{CIDR: "::/0", Except: []string{}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy, _ := find[networkingv1.NetworkPolicy](t, template(t, certificate+keystoneOnly+tc.values).Objects, "NetworkPolicy")
			webhooks := networkingv1.NetworkPolicyIngressRule{Ports: ports(corev1.ProtocolTCP, intstr.FromString("webhooks")), From: tc.wantWebhooks}
			if diff := cmp.Diff(webhooks, policy.Spec.Ingress[0]); diff != "" {
				t.Errorf("allowed clients of the webhooks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantEgress, policy.Spec.Egress); diff != "" {
				t.Errorf("allowed destinations of the pods (-want +got):\n%s", diff)
			}
			both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
			if diff := cmp.Diff(both, policy.Spec.PolicyTypes); diff != "" {
				t.Errorf("restricted directions (-want +got):\n%s", diff)
			}
		})
	}
}

// egress allows pods to use DNS, and to connect to those ports of those addresses.
func egress(numbers []int32, blocks ...*networkingv1.IPBlock) []networkingv1.NetworkPolicyEgressRule {
	var to []networkingv1.NetworkPolicyPeer
	for _, block := range blocks {
		to = append(to, networkingv1.NetworkPolicyPeer{IPBlock: block})
	}
	var allowed []networkingv1.NetworkPolicyPort
	for _, number := range numbers {
		allowed = append(allowed, ports(corev1.ProtocolTCP, intstr.FromInt32(number))...)
	}
	names := append(ports(corev1.ProtocolUDP, intstr.FromInt32(53)), ports(corev1.ProtocolTCP, intstr.FromInt32(53))...)
	return []networkingv1.NetworkPolicyEgressRule{{Ports: names}, {Ports: allowed, To: to}}
}

func ports(protocol corev1.Protocol, port intstr.IntOrString) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(protocol), Port: &port}}
}
