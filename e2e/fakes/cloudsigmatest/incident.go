package cloudsigmatest

// Incident is two servers with one name. A machine object got the UUID of the stale server, which an earlier attempt had created
// under another identity. The machine's own server was lost in a conflict. From then on, every request as the user was denied.
type Incident struct {
	// Region is the region of the servers.
	Region string
	// Client is the service account that impersonates both users.
	Client Client
	// User is the user that the machines' provider acts as. Other is the identity of the earlier attempt.
	User, Other User
	// Created is the server that the machine should name. Stale is the server that it names.
	Created, Stale Server
	// Sibling is the server of another machine, which is correct.
	Sibling Server
}

// Incident adds the users, the client and the servers of the incident to the cloud.
func (c *Cloud) Incident() (Incident, error) {
	const (
		region  = "next"
		machine = "metal-worker-pool-1-hl9tl-qbrcf"
		sibling = "metal-worker-pool-1-hl9tl-g2b7h"
	)
	user := c.addUser(User{UUID: "2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12", Email: "tenant@example.com"})
	other := c.AddUser("earlier-identity@example.com")
	client := c.AddClient("kube-dc-partner")
	return Incident{
		Region: region, Client: client, User: user, Other: other,
		Stale:   c.AddServer(region, other, machine, WithUUID("b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34")),
		Sibling: c.AddServer(region, user, sibling, WithUUID("3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45")),
		Created: c.AddServer(region, user, machine, WithUUID("5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b")),
	}, c.AllowImpersonation(client.ID, user.Email, other.Email)
}
