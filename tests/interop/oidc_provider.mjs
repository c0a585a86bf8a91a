// A real OpenID Connect issuer (npm `oidc-provider`). Arguments: port, file with the claims of people, redirect address,
// address after signing out. Any password is right on its sign-in page.
import { readFileSync } from 'node:fs'
import { Provider } from 'oidc-provider'

const [port, claims, redirect, signedOut] = process.argv.slice(2)
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: 'commonplace', client_secret: 'hush', redirect_uris: [redirect], post_logout_redirect_uris: [signedOut],
    grant_types: ['authorization_code'], response_types: ['code'],
  }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'email', 'profile', 'groups'],
  findAccount: async (_, id) => ({
    accountId: id, claims: async () => ({ sub: id, ...JSON.parse(readFileSync(claims))[id] }),
  }),
  pkce: { required: () => true },
  cookies: { keys: ['only for tests'] },
})
provider.listen(Number(port), () => console.log('ready'))
